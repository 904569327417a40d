"""Agents of real model servers on this machine, directly and through HiveMind: how many answers come, and when."""
