"""Starting and stopping the program."""
