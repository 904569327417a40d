"""Programs killed at random moments (SIGKILL), started again, and held to what they promise."""
