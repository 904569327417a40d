from __future__ import annotations

import pytest

from hivemind.settings.edit import edited

EDITS = {
    "no file": ("", {"rpm": 5, "aimd.alpha": 2}, "rpm = 5\n\n[aimd]\nalpha = 2\n"),
    "in place": ("rpm = 1 # few\n", {"rpm": 5}, "rpm = 5 # few\n"),
    "no line end": ("rpm = 1", {"rpm": 5}, "rpm = 5"),
    "after one without line end": ("port = 1", {"rpm": 5}, "port = 1\nrpm = 5\n"),
    "in place in a table": (
        "[aimd] # mine\n  beta = 0.50\t# half\n",
        {"aimd.beta": 0.7},
        "[aimd] # mine\n  beta = 0.7\t# half\n",
    ),
    "after the last, before the next table's comment": (
        "# mine\n\nport = 1\n\n# about it\n[aimd]\nbeta = 0.5\n",
        {"rpm": 5},
        "# mine\n\nport = 1\nrpm = 5\n\n# about it\n[aimd]\nbeta = 0.5\n",
    ),
    "before the first table": ("# it\n[aimd]\n", {"rpm": 5}, "rpm = 5\n\n# it\n[aimd]\n"),
    "under the file's own comment": ("# mine\n\n[aimd]\n", {"rpm": 5}, "# mine\nrpm = 5\n\n[aimd]\n"),
    "before a comment that may be the next table's": (
        "[aimd]\nbeta = 0.5\n# next\n[circuit]\n",
        {"aimd.alpha": 1},
        "[aimd]\nbeta = 0.5\nalpha = 1\n# next\n[circuit]\n",
    ),
    "after a comment of its own": (
        "[aimd]\n# beta = 1\n\n[circuit]\n",
        {"aimd.beta": 0.5},
        "[aimd]\n# beta = 1\nbeta = 0.5\n\n[circuit]\n",
    ),
    "a new table": (
        "[aimd]\nbeta = 0.5\n\n\n",
        {"retry.base_s": 0.1, "retry.max_s": 2},
        "[aimd]\nbeta = 0.5\n\n\n[retry]\nbase_s = 0.1\nmax_s = 2\n",
    ),
    "only a comment": ("# all of it\n", {"aimd.beta": 0.5}, "# all of it\n\n[aimd]\nbeta = 0.5\n"),
    "dotted": (
        "aimd.beta = 0.5 # x\nport = 1\n",
        {"aimd.beta": 0.7, "aimd.alpha": 2},
        "aimd.beta = 0.7 # x\naimd.alpha = 2\nport = 1\n",
    ),
    "dotted, apart": (
        "aimd.beta = 0.5\nport = 1\naimd.window = 3\n",
        {"aimd.window": 7},
        "aimd.beta = 0.5\nport = 1\naimd.window = 7\n",
    ),
    "inline": (
        "aimd = {beta = 0.5} # x\n",
        {"aimd.beta": 0.7, "aimd.alpha": 2},
        "aimd = {beta = 0.7, alpha = 2} # x\n",
    ),
    "empty inline": ("aimd = {}\n", {"aimd.alpha": 2}, "aimd = {alpha = 2}\n"),
    "quoted": ('["aimd"]\n"beta" = 1\n', {"aimd.beta": 2}, '["aimd"]\n"beta" = 2\n'),
    "brackets that are no header": (
        'upstream = [\n  "http://a",\n# [aimd]\n]\n[ aimd ]\n',
        {"rpm": 2, "aimd.beta": 0.7},
        'upstream = [\n  "http://a",\n# [aimd]\n]\nrpm = 2\n[ aimd ]\nbeta = 0.7\n',
    ),
    "text": ('ca_file = """\n[aimd]\n"""\n', {"aimd.beta": 1}, 'ca_file = """\n[aimd]\n"""\n\n[aimd]\nbeta = 1\n'),
    "line ends of Windows": (
        "rpm = 1\r\n[aimd]\r\nbeta = 1\r\n",
        {"tpm": 2, "aimd.alpha": 3, "retry.max_s": 4},
        "rpm = 1\r\ntpm = 2\r\n[aimd]\r\nbeta = 1\r\nalpha = 3\r\n\r\n[retry]\r\nmax_s = 4\r\n",
    ),
    "the same": ("rpm = 1_000\ntpm = 0x10\n", {"rpm": 1000, "tpm": 16}, "rpm = 1_000\ntpm = 0x10\n"),
}


@pytest.mark.parametrize(("text", "numbers", "after"), EDITS.values(), ids=list(EDITS))
def test_edited(text: str, numbers: dict[str, float], after: str) -> None:
    """What is set stands where a person would have put it, and all the rest is as it was, to the last character."""
    assert edited(text, numbers) == after
