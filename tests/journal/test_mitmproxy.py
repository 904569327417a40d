"""mitmproxy's dumps as journals."""

from __future__ import annotations

import io
import tracemalloc
from pathlib import Path

import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from journal.recordings import HERE

from hivemind.cli.main import main
from hivemind.journal.files import find, folder_in
from hivemind.journal.importers.flows import Value, entries, values
from hivemind.journal.importers.parsed import Entry, UnreadableEntry
from hivemind.journal.read.reader import open_journal
from hivemind.scheduler import events as ev
from hivemind.scheduler.types import FailureKind, Usage

DUMP = (HERE / "run.mitm").read_bytes()
"""What mitmdump 11 wrote of three requests to a provider, one of them refused with 429, and of one page."""


def packed(value: Value) -> bytes:
    """A value in the dump's form."""
    if isinstance(value, dict):
        data, tag = b"".join(packed(key) + packed(each) for key, each in value.items()), b"}"
    elif isinstance(value, list):
        data, tag = b"".join(map(packed, value)), b"]"
    elif isinstance(value, bool):
        data, tag = str(value).lower().encode(), b"!"
    elif isinstance(value, bytes):
        data, tag = value, b","
    elif isinstance(value, str):
        data, tag = value.encode(), b";"
    elif isinstance(value, int):
        data, tag = str(value).encode(), b"#"
    elif value is None:
        data, tag = b"", b"~"
    else:
        data, tag = repr(value).encode(), b"^"
    return b"%d:%s%s" % (len(data), data, tag)


def unpacked(data: bytes) -> list[Value]:
    """Every value."""
    return list(values(io.BytesIO(data)))


def imported(tmp_path: Path, data: bytes) -> tuple[list[ev.Event], str]:
    """The journal's events, and its source."""
    path = tmp_path / "run.mitm"
    path.write_bytes(data)
    assert main(["journal", "import", str(path), "--state-dir", str(tmp_path)]) == 0
    journal = open_journal(find("latest", tmp_path))
    return list(journal.events()), journal.began.source


def flow(**changes: Value) -> dict[str, Value]:
    """One flow of HTTP."""
    request: dict[str, Value] = {
        "method": b"POST",
        "scheme": b"https",
        "host": "api.openai.com",
        "port": 443,
        "path": b"/v1/chat/completions",
        "headers": [[b"Authorization", b"Bearer sk-proj-0123456789abcdef"]],
        "content": b'{"model":"gpt-4o","messages":[]}',
        "timestamp_start": 1_795_000_000.5,
        "timestamp_end": 1_795_000_000.6,
    }
    response: dict[str, Value] = {
        "status_code": 200,
        "headers": [[b"Content-Type", b"application/json"]],
        "content": b'{"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":3}}',
        "timestamp_start": 1_795_000_001.5,
        "timestamp_end": 1_795_000_002.5,
    }
    return {"type": "http", "version": 20, "request": request, "response": response, "error": None, **changes}


def test_a_dump(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What mitmproxy itself wrote: packed answers are read, attempts joined, the page counted."""
    events, source = imported(tmp_path, DUMP)
    assert source == "mitmproxy"
    finished = [event for event in events if isinstance(event, ev.Finished)]
    shown = [(event.agent[:3], event.attempts, event.usage) for event in finished]
    assert shown == [("key", 2, Usage(120, 30, 10, 42)), ("bob", 1, Usage(20, 0, 0, 5))]
    told = capsys.readouterr()
    assert told.out == "journal 20261121-185928-mitmproxy: 2 requests of 2 agents, 3 attempts\n"
    assert told.err == (
        "hivemind: run.mitm; left out: 1 (no requests of models)\n"
        "hivemind: not recorded: rate limits (of 1 of 2 requests)\n"
    )


def test_a_flow(tmp_path: Path) -> None:
    """Times, model and usage of one flow."""
    events, _ = imported(tmp_path, packed(flow()))
    (finished,) = (event for event in events if isinstance(event, ev.Finished))
    assert (finished.model, finished.usage, finished.duration_s) == ("gpt-4o", Usage(11, 0, 0, 3), 2.0)
    (first,) = (event for event in events if isinstance(event, ev.FirstContent))
    assert first.ttft_s == 1.0


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("[Errno 111] Connection refused", FailureKind.CONNECT),
        ("Server disconnected", FailureKind.DISCONNECTED),
        ("Read timed out", FailureKind.TIMEOUT),
    ],
)
def test_errors(tmp_path: Path, words: str, kind: FailureKind) -> None:
    """A flow without an answer failed as its error says, in words of ours."""
    lost = flow(response=None, error={"msg": words, "timestamp": 1_795_000_003.5})
    events, _ = imported(tmp_path, packed(lost))
    (failed,) = (event for event in events if isinstance(event, ev.AttemptFailed))
    assert (failed.kind, failed.status, failed.at) == (kind, None, 3.0)
    assert words not in failed.message


def test_an_answer_that_was_cut(tmp_path: Path) -> None:
    """An answer that ended in an error is a fault, though it began well; one whose client left isn't."""
    broken = flow(error={"msg": "peer closed connection", "timestamp": 1_795_000_003.5})
    left = flow(response=None, error={"msg": "Client disconnected.", "timestamp": 1_795_000_003.5})
    events, _ = imported(tmp_path, packed(broken) + packed(left))
    assert [event.kind for event in events if isinstance(event, ev.AttemptFailed)] == [FailureKind.TRUNCATED]
    assert sum(isinstance(event, ev.Abandoned) for event in events) == 1


def test_other_flows_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What isn't HTTP, or lacks what is needed, is counted and costs nothing else."""
    nowhere = flow(request={"timestamp_start": 1.0, "scheme": b"https", "host": "", "port": 1})
    imported(tmp_path, packed({"type": "tcp"}) + packed(nowhere) + packed([1, 2]) + packed(flow()))
    assert (
        capsys.readouterr().err == "hivemind: run.mitm; left out: 2 (no requests of models), 1 (a flow has no host)\n"
        "hivemind: not recorded: rate limits\n"
    )


def test_a_cut_dump(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whole flows before the end are taken."""
    events, _ = imported(tmp_path, packed(flow()) + packed(flow())[:-20])
    assert sum(isinstance(event, ev.Finished) for event in events) == 1
    assert (
        capsys.readouterr().err
        == "hivemind: run.mitm; left out: 1 (the file isn't whole)\nhivemind: not recorded: rate limits\n"
    )


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.binary() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(_VALUES)
def test_values_there_and_back(value: Value) -> None:
    """Whatever is packed comes back."""
    assert unpacked(packed(value) * 2) == [value, value]


def test_deep_values() -> None:
    """A value that is nested deeper than any real one is refused before it costs anything."""
    data = b"0:]"
    for _ in range(5000):
        data = b"%d:%s]" % (len(data), data)
    with pytest.raises(UnreadableEntry, match="nested too deep"):
        unpacked(data)


def test_a_length_that_is_not_true() -> None:
    """A file that announces a gigabyte and holds little costs little."""
    tracemalloc.start()
    with pytest.raises(UnreadableEntry, match="isn't whole"):
        unpacked(b"1000000000:" + b"x" * 100)
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_bytes(tmp_path: Path, data: st.DataObject) -> None:
    """A dump with anything changed in it is read as far as it can be, and never more than that."""
    changed = bytearray(DUMP)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(changed) - 1))
        size = data.draw(st.integers(0, 20))
        changed[place : place + size] = data.draw(st.binary(max_size=20))
    path = tmp_path / "a.mitm"
    path.write_bytes(changed)
    assert all(found is None or isinstance(found, Entry | UnreadableEntry) for found in entries(path))
    (folder_in(tmp_path) / "n.jsonl").unlink(missing_ok=True)
    flags = ["--state-dir", str(tmp_path), "--name", "n", "--bodies"]
    assert main(["journal", "import", str(path), *flags]) in (0, 2)
