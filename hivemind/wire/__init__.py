"""What a request says and what of it must stay hidden; no I/O."""
