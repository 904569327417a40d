"""Instructions as plain text: what is to be pasted stands alone on its lines, the prose in 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from hivemind.setup.model import Client, Instructions, Snippet

_WIDTH = 80


def as_text(found: Instructions) -> str:
    """What `hivemind setup CLIENT` prints, with a line end."""
    blocks = [
        f"{found.client.title}, as the agent {found.target.agent}" if found.client.named else found.client.title,
        *(_wrapped(limit) for limit in found.limits),
        *(block for snippet in (*found.snippets, found.check, found.undo) for block in _blocks(snippet)),
        aligned(found.facts),
    ]
    return "\n\n".join(blocks) + "\n"


def listing(clients: Iterable[Client]) -> str:
    """What `hivemind setup` prints, with a line end."""
    rows = [(client.name, f"{client.title}: {client.summary}") for client in clients]
    return f"hivemind setup CLIENT prints what to paste where. CLIENT is one of\n\n{aligned(rows, indent='  ')}\n"


def aligned(rows: Iterable[tuple[str, str]], *, indent: str = "") -> str:
    """Labels in a column, texts beside them."""
    rows = list(rows)
    column = max(len(label) for label, _ in rows) + 3
    return "\n".join(_wrapped(text, indent + label.ljust(column), indent + " " * column) for label, text in rows)


def _blocks(snippet: Snippet) -> Iterator[str]:
    yield _wrapped(f"{snippet.where}:" if snippet.text else snippet.where)
    if snippet.text:
        yield snippet.text


def _wrapped(text: str, first: str = "", rest: str = "") -> str:
    return textwrap.fill(
        text, _WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )
