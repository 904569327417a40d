"""Commands that replay, simulate, tune and report."""
