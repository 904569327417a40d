"""Hours of full load on a real proxy, with faults, disconnects and steering, in which no request may be lost."""
