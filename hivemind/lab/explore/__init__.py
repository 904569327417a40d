"""Experiments on live traffic: what a pair of settings did in alternating slices, and when that is enough to know."""
