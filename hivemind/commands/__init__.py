"""What `hivemind` can be told to do, a module each; only the one that is wanted is imported (:mod:`hivemind.cli`)."""
