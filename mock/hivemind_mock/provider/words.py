"""The text of the mock's answers: a stock of words, one token each."""

from __future__ import annotations

_TEXT = (
    "I read the failing test first and it waits for a reply that never comes because the lock is taken twice "
    "on the retry path so the fix is to release it before we sleep and to take it again only when there is work "
    "to do then the queue drains in order and every caller sees its own answer next I looked at how the cache "
    "decides what to drop and found that an entry which is being written counts as idle which explains the "
    "missing rows in the report after that change both suites pass and the run takes half as long as before I "
    "also moved the parsing into one place gave the errors names that say what to do and wrote down why the "
    "limit is where it is what remains is the migration it needs a backup a dry run and one line in the notes"
)
_STOCK = _TEXT.split()


def pieces(start: int, tokens: int, size: int) -> tuple[str, ...]:
    """`tokens` words from the stock, beginning anywhere, in parts of `size` words (the last may be shorter)."""
    words = [_STOCK[(start + index) % len(_STOCK)] + " " for index in range(tokens)]
    return tuple("".join(words[at : at + size]) for at in range(0, tokens, size))
