"""Moved to :mod:`hivemind.suggest`."""

from hivemind.suggest import did_you_mean

__all__ = ["did_you_mean"]
