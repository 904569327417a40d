"""Sending recorded or synthetic traffic to a live target."""
