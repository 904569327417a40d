"""The pure state machine: told what happened and when, it answers with what may be done."""
