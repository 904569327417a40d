"""Hostile clients and a hostile upstream, and how long a proxy under each of them takes to answer everybody else."""
