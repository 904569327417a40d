"""The journal: everything that happened, a line of JSON each, to look at, replay and work with later."""
