"""Admission control: the gate, the order of the queue, AIMD, the circuit breaker, retries and refusals."""
