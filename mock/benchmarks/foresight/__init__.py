"""How right what-if is about providers that it doesn't know: predictions beside what really came."""
