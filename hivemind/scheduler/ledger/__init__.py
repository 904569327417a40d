"""Token budgets: accounts of what was used, the budgets on them, and who is charged for whom."""
