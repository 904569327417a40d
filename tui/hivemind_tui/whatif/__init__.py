"""What other settings would have done with the traffic recorded: chosen here, simulated in a process of its own."""
