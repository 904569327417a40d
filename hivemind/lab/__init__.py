"""Virtual time and the experiments that run in it."""
