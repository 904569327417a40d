"""What agents and SDKs do when they are refused for good, by the status and the moment of the refusal."""
