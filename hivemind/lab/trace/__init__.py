"""A recording as the steps of its agents: what each request followed, and after how long."""
