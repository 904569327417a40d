"""Rate-limit tracking: windows, the allowances they make up, and estimates of what a request will use."""
