from __future__ import annotations

import pytest

from hivemind.settings.edit import edited


@pytest.mark.parametrize(
    ("text", "numbers", "after"),
    [
        pytest.param("", {"rpm": 5, "aimd.alpha": 2}, "rpm = 5\n\n[aimd]\nalpha = 2\n", id="no file"),
        pytest.param("rpm = 1 # few\n", {"rpm": 5}, "rpm = 5 # few\n", id="in place"),
        pytest.param("rpm = 1", {"rpm": 5}, "rpm = 5", id="no line end"),
        pytest.param("port = 1", {"rpm": 5}, "port = 1\nrpm = 5\n", id="after one without line end"),
        pytest.param(
            "[aimd] # mine\n  beta = 0.50\t# half\n",
            {"aimd.beta": 0.7},
            "[aimd] # mine\n  beta = 0.7\t# half\n",
            id="in place in a table",
        ),
        pytest.param(
            "# mine\n\nport = 1\n\n# about it\n[aimd]\nbeta = 0.5\n",
            {"rpm": 5},
            "# mine\n\nport = 1\nrpm = 5\n\n# about it\n[aimd]\nbeta = 0.5\n",
            id="after the last, before the next table's comment",
        ),
        pytest.param("# it\n[aimd]\n", {"rpm": 5}, "rpm = 5\n\n# it\n[aimd]\n", id="before the first table"),
        pytest.param(
            "# mine\n\n[aimd]\n", {"rpm": 5}, "# mine\nrpm = 5\n\n[aimd]\n", id="under the file's own comment"
        ),
        pytest.param(
            "[aimd]\nbeta = 0.5\n# next\n[circuit]\n",
            {"aimd.alpha": 1},
            "[aimd]\nbeta = 0.5\nalpha = 1\n# next\n[circuit]\n",
            id="before a comment that may be the next table's",
        ),
        pytest.param(
            "[aimd]\n# beta = 1\n\n[circuit]\n",
            {"aimd.beta": 0.5},
            "[aimd]\n# beta = 1\nbeta = 0.5\n\n[circuit]\n",
            id="after a comment of its own",
        ),
        pytest.param(
            "[aimd]\nbeta = 0.5\n\n\n",
            {"retry.base_s": 0.1, "retry.max_s": 2},
            "[aimd]\nbeta = 0.5\n\n\n[retry]\nbase_s = 0.1\nmax_s = 2\n",
            id="a new table",
        ),
        pytest.param("# all of it\n", {"aimd.beta": 0.5}, "# all of it\n\n[aimd]\nbeta = 0.5\n", id="only a comment"),
        pytest.param(
            "aimd.beta = 0.5 # x\nport = 1\n",
            {"aimd.beta": 0.7, "aimd.alpha": 2},
            "aimd.beta = 0.7 # x\naimd.alpha = 2\nport = 1\n",
            id="dotted",
        ),
        pytest.param(
            "aimd.beta = 0.5\nport = 1\naimd.window = 3\n",
            {"aimd.window": 7},
            "aimd.beta = 0.5\nport = 1\naimd.window = 7\n",
            id="dotted, apart",
        ),
        pytest.param(
            "aimd = {beta = 0.5} # x\n",
            {"aimd.beta": 0.7, "aimd.alpha": 2},
            "aimd = {beta = 0.7, alpha = 2} # x\n",
            id="inline",
        ),
        pytest.param("aimd = {}\n", {"aimd.alpha": 2}, "aimd = {alpha = 2}\n", id="empty inline"),
        pytest.param('["aimd"]\n"beta" = 1\n', {"aimd.beta": 2}, '["aimd"]\n"beta" = 2\n', id="quoted"),
        pytest.param(
            'upstream = [\n  "http://a",\n# [aimd]\n]\n[ aimd ]\n',
            {"rpm": 2, "aimd.beta": 0.7},
            'upstream = [\n  "http://a",\n# [aimd]\n]\nrpm = 2\n[ aimd ]\nbeta = 0.7\n',
            id="brackets that are no header",
        ),
        pytest.param(
            'ca_file = """\n[aimd]\n"""\n',
            {"aimd.beta": 1},
            'ca_file = """\n[aimd]\n"""\n\n[aimd]\nbeta = 1\n',
            id="text",
        ),
        pytest.param(
            "rpm = 1\r\n[aimd]\r\nbeta = 1\r\n",
            {"tpm": 2, "aimd.alpha": 3, "retry.max_s": 4},
            "rpm = 1\r\ntpm = 2\r\n[aimd]\r\nbeta = 1\r\nalpha = 3\r\n\r\n[retry]\r\nmax_s = 4\r\n",
            id="line ends of Windows",
        ),
        pytest.param("rpm = 1_000\ntpm = 0x10\n", {"rpm": 1000, "tpm": 16}, "rpm = 1_000\ntpm = 0x10\n", id="the same"),
    ],
)
def test_edited(text: str, numbers: dict[str, float], after: str) -> None:
    """What is set stands where a person would have put it, and all the rest is as it was, to the last character."""
    assert edited(text, numbers) == after
