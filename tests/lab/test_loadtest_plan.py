"""What is to be sent again: the requests of a journal, or some that are made up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from lab.loadtest_kit import BEGAN, USED, arrived, body, failed, finished, journal, opened, request

from hivemind.errors import UsageError
from hivemind.journal.read.reader import open_journal
from hivemind.lab.loadtest.messages import max_answer_tokens, path_of, synthetic_request
from hivemind.lab.loadtest.requests import RecordedRequest, RequestResult, recorded_requests
from hivemind.lab.loadtest.result import make_plan
from hivemind.providers.paths import dialect_for
from hivemind.scheduler.events import Abandoned, AttemptFailed, Event, FirstContent, Granted, Refused
from hivemind.scheduler.types import FailureKind, Priority, Usage
from hivemind.world.state import Carried
from hivemind.world.world import World

GRANTED = Granted(BEGAN, 1, "ann", "lane", 1, 0.0)


def read(*events: Event) -> list[RecordedRequest]:
    """Return the requests of these events."""
    return recorded_requests(events, BEGAN)


def test_a_request_is_as_it_was_recorded() -> None:
    """Everything that tells what was asked, and how it went."""
    found = read(
        opened(),
        arrived(1, 2.0, asked=Priority.HIGH, stream=True),
        body(1, "{}"),
        Granted(BEGAN + 2.4, 1, "ann", "lane", 1, 0.4),
        FirstContent(BEGAN + 2.5, 1, "ann", "lane", 0.1),
        finished(1, 4.0),
    )
    assert found == [
        request(
            1, 2.0, priority=Priority.HIGH, stream=True, has_body=True, recorded=RequestResult(200, "", 0.5, 2.0, USED)
        ),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("events", "result"),
    [
        ([], RequestResult(None, "not over", None, None, None)),
        ([failed(1, 3, FailureKind.QUOTA, 402)], RequestResult(402, "quota", None, 3.0, None)),
        ([failed(1, 3, FailureKind.CONNECT, None)], RequestResult(502, "connect", None, 3.0, None)),
        ([failed(1, 3, FailureKind.TIMEOUT, None)], RequestResult(504, "timeout", None, 3.0, None)),
        ([Abandoned(BEGAN + 3, 1, "ann", "lane", True)], RequestResult(None, "left", None, 3.0, None)),
        ([Refused(BEGAN + 3, 1, "ann", "lane", "queue_full", 503)], RequestResult(503, "queue_full", None, 3.0, None)),
        (
            [GRANTED, FirstContent(BEGAN + 1, 1, "ann", "lane", 1.0), failed(1, 3, FailureKind.TRUNCATED, None)],
            RequestResult(200, "truncated", 1.0, 3.0, None),
        ),
        (
            [AttemptFailed(BEGAN + 1, 1, "ann", "lane", 1, FailureKind.OVERLOADED, 529, "", 0.5), finished(1, 2)],
            RequestResult(200, "", None, 2.0, USED),
        ),
    ],
)
def test_how_it_went_is_what_its_agent_saw(events: list[Event], result: RequestResult) -> None:
    """Attempts that were tried again don't show; what our own refusals were is known by their reason."""
    assert read(arrived(1, 0.0), *events)[0].recorded == result


def test_what_was_open_when_the_journal_begins_counts_from_there() -> None:
    """A journal that begins in the middle lists what is open."""
    world = World(at=BEGAN, wall=0.0, address="", upstreams=())
    for event in (opened(), arrived(1, -5.0)):
        world.apply(event)
    (found,) = read(Carried(BEGAN + 1, world.keep(BEGAN + 1)), finished(1, 3.0))
    assert (found.at_s, found.provider, found.recorded.status, found.recorded.took_s) == (1.0, "anthropic", 200, 2.0)


@pytest.mark.parametrize(
    ("chosen", "tickets"), [({}, [1, 2, 3, 4]), ({"from_s": 1.5, "to_s": 3.0}, [2, 3]), ({"most": 2}, [1, 2])]
)
def test_some_are_chosen(tmp_path: Path, chosen: dict[str, Any], tickets: list[int]) -> None:
    """By time since the journal began, and as many as are wanted."""
    file = journal(tmp_path / "run.jsonl", arrived(1, 1.0), arrived(2, 2.0, "bob"), arrived(3, 3.0), arrived(4, 4.0))
    assert [each.ticket for each in make_plan(open_journal(file), None, **chosen).requests] == tickets


@pytest.mark.parametrize(
    ("events", "text"),
    [
        ((), "no request is in this journal"),
        ((arrived(1, 1.0),), "no request is chosen; the journal's come from 0 to 1 s after it began"),
    ],
)
def test_who_chooses_nothing_is_told(tmp_path: Path, events: tuple[Event, ...], text: str) -> None:
    """In one line that says what there is."""
    with pytest.raises(UsageError) as refused:
        make_plan(open_journal(journal(tmp_path / "run.jsonl", *events)), None, from_s=5.0)
    assert str(refused.value) == text


def test_a_body_that_was_not_kept_is_none() -> None:
    """Its request is made up."""
    found = read(arrived(1, 0.0), body(1, "{}"), arrived(2, 1.0), body(2, "", left_out="too long"))
    assert [each.has_body for each in found] == [True, False]


PATHS = [
    "/v1/messages",
    "/v1/chat/completions",
    "/v1/completions",
    "/openai/deployments/gpt/chat/completions",
    "/v1/responses",
    "/v1beta/models/gemini-2.5-pro:generateContent",
    "/v1beta/models/gemini-2.5-pro:streamGenerateContent",
    "/api/chat",
    "/api/generate",
]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("size", [600, 70_001])
def test_it_is_read_as_the_recorded_one_was(path: str, stream: bool, size: int) -> None:
    """By the dialect of its path: as large to the character, of that model, with that limit, a stream or none."""
    made = synthetic_request(request(path=path, stream=stream, size_chars=size, model="gemini-2.5-pro"), 40)
    assert made is not None
    facts = dialect_for(made.path).facts(made.path, made.query, made.headers, made.body)
    assert (facts.size_chars, facts.model, facts.max_output_tokens) == (size, "gemini-2.5-pro", 40)
    assert facts.stream is (stream and not path.endswith(":generateContent"))  # which has a path of its own to stream
    assert not facts.continues_state


@pytest.mark.parametrize("path", ["/v1/embeddings", "/api/embed", "/api/embeddings"])
def test_embeddings_have_no_answer_to_limit(path: str) -> None:
    """The text alone takes the room."""
    made = synthetic_request(request(path=path, size_chars=900), 40)
    assert made is not None
    assert len(made.body) == 900
    assert set(msgspec.json.decode(made.body)) == {"model", "input" if path != "/api/embeddings" else "prompt"}


@pytest.mark.parametrize(
    "path",
    [
        "/v1/messages/batches",
        "/v1/responses/compact",
        "/v1beta/models/gemini:embedContent",
        "/v1beta/models/gemini:batchGenerateContent",
        "/v1beta/interactions",
        "/v1/audio/speech",
    ],
)
def test_what_is_not_known_is_not_made_up(path: str) -> None:
    """A request in the wrong form would only test the upstream's refusals."""
    assert synthetic_request(request(path=path), None) is None


def test_no_two_are_alike() -> None:
    """Nor do they begin alike, but those of one agent do."""
    bodies = [synthetic_request(each, 40) for each in (request(1), request(2), request(2, agent="bob"))]
    first, second, other = (each.body.decode() for each in bodies if each is not None)
    assert len({first, second, other}) == 3
    assert first[:300] == second[:300] != other[:300]


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"path": "/x/v1/messages"}, "/x/v1/messages"),
        ({"path": ""}, "/v1/messages"),
        ({"path": "", "provider": "generic"}, "/v1/messages"),
        ({"path": "", "provider": "openai", "model": "gpt-5"}, "/v1/chat/completions"),
        ({"path": "", "provider": "ollama", "model": "llama3"}, "/api/chat"),
        ({"path": "", "provider": "", "model": "gemini-pro", "stream": True},
         "/v1beta/models/gemini-pro:streamGenerateContent"),
        ({"path": "", "provider": "google", "model": "tuned/x"}, "/v1beta/models/tuned%2Fx:generateContent"),
    ],
)  # fmt: skip
def test_a_path_that_was_not_recorded_is_the_providers(changes: dict[str, Any], path: str) -> None:
    """Where its models are asked."""
    assert path_of(request(**changes)) == path


@pytest.mark.parametrize(
    ("recorded", "longest"),
    [
        (RequestResult(200, "", 0.1, 1.0, Usage(10, 0, 0, 40)), 40),
        (RequestResult(200, "", 0.1, 1.0, None), 1000),
        (RequestResult(200, "truncated", 0.1, 1.0, Usage(10, 0, 0, 7)), 1000),
    ],
)
def test_answers_are_as_long_as_they_were(recorded: RequestResult, longest: int) -> None:
    """Or as the request allowed, where nothing else is known; a cut one tells nothing."""
    assert max_answer_tokens(request(recorded=recorded)) == longest


def test_what_only_one_api_wants() -> None:
    """OpenAI's own models want a limit of another name; Responses take none below 16; Anthropic's takes none at all."""
    cases = [
        (request(path="/v1/chat/completions", provider="openai"), 40, "max_completion_tokens", 40),
        (request(path="/v1/chat/completions", provider="generic"), 40, "max_tokens", 40),
        (request(path="/v1/responses"), 3, "max_output_tokens", 16),
        (request(), None, "max_tokens", 256),
    ]
    for each, most, field, value in cases:
        made = synthetic_request(each, most)
        assert made is not None
        assert msgspec.json.decode(made.body)[field] == value
