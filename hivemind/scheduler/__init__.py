"""The pure state machine that schedules requests: it takes what happened and when, and returns what to do."""
