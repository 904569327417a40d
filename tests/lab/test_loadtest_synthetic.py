"""Requests made up in place of recorded ones."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from lab.loadtest_kit import request

from hivemind.lab.loadtest.messages import max_answer_tokens, path_of, synthetic_request
from hivemind.lab.loadtest.requests import RequestResult
from hivemind.providers.paths import dialect_for
from hivemind.scheduler.types import Usage

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
