"""Tables for people, as plain text."""

from __future__ import annotations

from collections.abc import Sequence


def laid_out(rows: Sequence[Sequence[str]], *, left: int) -> str:
    """Columns as wide as their widest cell; the first `left` aligned left, numbers right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if index < left else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
