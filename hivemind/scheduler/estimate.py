"""Guesses at what a request will use, before the provider has counted.

Starts at four characters a token (paper, Token Counting from SSE Streams) and learns from each reply's real usage, a
model at a time: tokenizers differ by a third between generations of one family, and code, prose and CJK text by more.
"""

from __future__ import annotations

CHARS_PER_TOKEN = 4.0
FIRST_OUTPUT = 256
"""Output tokens assumed of a model that has answered nothing yet."""
LEARNING_RATE = 0.2
_RATIO_RANGE = (0.5, 40.0)
"""Characters a token; readings outside are of requests whose text isn't in the body (threads, files by id)."""


class Estimator:
    """Characters to tokens, and the usual length of an answer, of one model."""

    __slots__ = ("chars_per_token", "output_tokens")

    def __init__(self) -> None:
        self.chars_per_token = CHARS_PER_TOKEN
        self.output_tokens = float(FIRST_OUTPUT)

    def input_tokens(self, size_chars: int) -> int:
        """Tokens of a prompt of so many characters, at least one."""
        return max(1, round(size_chars / self.chars_per_token))

    def answer_tokens(self, max_output_tokens: int | None) -> int:
        """Tokens the answer will likely have; never more than the request allows."""
        expected = round(self.output_tokens)
        return max(1, expected if max_output_tokens is None else min(expected, max_output_tokens))

    def learn(self, size_chars: int, input_tokens: int, output_tokens: int) -> None:
        """Take in one reply's real usage (all input, cached or not)."""
        if size_chars > 0 and input_tokens > 0:
            low, high = _RATIO_RANGE
            ratio = size_chars / input_tokens
            if low <= ratio <= high:
                self.chars_per_token += LEARNING_RATE * (ratio - self.chars_per_token)
        if output_tokens > 0:
            self.output_tokens += LEARNING_RATE * (output_tokens - self.output_tokens)
