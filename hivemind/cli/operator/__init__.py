"""Commands that show and steer a running proxy."""
