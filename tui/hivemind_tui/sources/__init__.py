"""Where the screen's data comes from: this process, another proxy, a journal."""
