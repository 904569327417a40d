"""Composition: settings, engine, journal, store and control API in one server."""
