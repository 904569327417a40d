"""Commands that start agents and bring them back."""
