"""Recorded traffic, sent again: the same requests at the same times, for a load test of whatever answers there."""
