"""What goes over the wire when recorded traffic is sent again, and when, in virtual time."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from typing import Any

import pytest
from lab.loadtest_kit import body, request, target

from hivemind.journal.records import RequestBody
from hivemind.lab.loadtest.messages import Bodies, MessageBuilder, OutgoingRequest, can_be_sent
from hivemind.lab.loadtest.requests import RecordedRequest, RequestResult, Sent
from hivemind.lab.loadtest.sender import Sender
from hivemind.lab.loadtest.target import ApiKeys
from hivemind.lab.simulate.clock import run_virtual
from hivemind.providers.base import Facts
from hivemind.providers.paths import DIALECTS
from hivemind.scheduler.types import Priority

KEY = "sk-ant-fresh-0123456789"
QUESTION = '{"model":"claude-sonnet-5","max_tokens":9,"messages":[]}'


def made(
    each: RecordedRequest, *recorded: RequestBody, url: str = "http://127.0.0.1:9", **options: Any
) -> OutgoingRequest:
    """Its message, with a key in the environment."""
    keys = ApiKeys({"ANTHROPIC_API_KEY": KEY}, None, target(url))
    message = MessageBuilder(target(url), keys, Bodies(recorded, [one.ticket for one in recorded]), **options).build(
        each
    )
    assert message is not None
    return message


def test_a_recorded_request_goes_again_as_it_was() -> None:
    """Its body to the byte, its path and query, its headers: but for those of the connection that was, our own, and
    masked credentials, in place of which there is a fresh one."""
    recorded = body(
        1,
        QUESTION,
        "/agent/ann/v1/messages?beta=true&key=***",
        ("Anthropic-Beta", "tools"),
        ("X-Api-Key", "***"),
        ("authorization", "Bearer ***"),
        ("x-odd", "before***after"),
        ("x-hivemind-agent", "ann"),
        ("content-encoding", "gzip"),
        ("content-length", "3"),
        ("host", "old"),
        ("connection", "close"),
    )
    message = made(request(1, has_body=True), recorded)
    assert message.real
    assert (message.method, message.target, message.body) == (b"POST", b"/v1/messages?beta=true", QUESTION.encode())
    assert message.headers == [(b"anthropic-beta", b"tools"), (b"x-api-key", KEY.encode())]
    assert message.facts.max_output_tokens == 9


def test_bytes_go_as_bytes() -> None:
    """Where what was sent isn't text; what can't be read is made up instead."""
    data = bytes(range(256))
    message = made(request(1, has_body=True), body(1, base64.b64encode(data).decode(), encoding="base64"))
    assert (message.real, message.body) == (True, data)
    message = made(request(1, has_body=True), body(1, "not base64", encoding="base64"))
    assert not message.real
    assert len(message.body) == 600


def test_one_that_was_not_recorded_is_made_up() -> None:
    """In its size, for an answer as long as it got, with the credential of its API."""
    message = made(request(1))
    assert (message.real, message.target, len(message.body)) == (False, b"/v1/messages", 600)
    assert message.facts.max_output_tokens == 40
    assert dict(message.headers)[b"x-api-key"] == KEY.encode()


@pytest.mark.parametrize(
    ("path", "header", "value"),
    [
        ("/v1/messages", b"x-api-key", b"abc"),
        ("/v1/chat/completions", b"authorization", b"Bearer abc"),
        ("/v1/responses", b"authorization", b"Bearer abc"),
        ("/openai/deployments/gpt/chat/completions", b"api-key", b"abc"),
        ("/v1beta/models/gemini:generateContent", b"x-goog-api-key", b"abc"),
        ("/api/chat", b"authorization", b"Bearer abc"),
    ],
)
def test_a_key_stands_where_its_api_looks(path: str, header: bytes, value: bytes) -> None:
    """Whatever variable it comes from."""
    keys = ApiKeys({"MINE": "abc"}, "MINE", target())
    message = MessageBuilder(target(), keys, Bodies((), ())).build(request(path=path))
    assert message is not None
    assert dict(message.headers)[header] == value


def test_a_hivemind_is_told_who_asks() -> None:
    """By a header, with the priority that was asked for, and the token that it wants of agents."""
    message = made(request(1, agent="frédéric", priority=Priority.LOW), hivemind=True, token="let-me-in")
    sent = dict(message.headers)
    assert sent[b"x-hivemind-agent"].decode() == "frédéric"
    assert (sent[b"x-hivemind-priority"], sent[b"x-hivemind-token"]) == (b"low", b"let-me-in")


def test_others_are_told_nothing_of_agents() -> None:
    """No header of ours goes to a provider."""
    assert not [name for name, _ in made(request(1, priority=Priority.LOW)).headers if b"hivemind" in name]


def test_a_client_that_names_its_sub_agents_does_so_again() -> None:
    """So its own part isn't said twice."""
    recorded = body(
        1,
        QUESTION,
        "/v1/messages",
        ("user-agent", "claude-cli/2.0"),
        ("x-claude-code-session-id", "11111111-2222"),
        ("x-claude-code-agent-id", "helper1"),
    )
    sent = made(request(1, agent="ann/helper1", has_body=True), recorded, hivemind=True)
    assert dict(sent.headers)[b"x-hivemind-agent"] == b"ann"


def test_a_base_path_is_not_put_twice() -> None:
    """`/v1/…` at a base of `/v1` is meant once; any other base comes before."""
    assert made(request(1), url="http://127.0.0.1:9/v1").target == b"/v1/messages"
    assert made(request(1), url="http://127.0.0.1:9/gateway").target == b"/gateway/v1/messages"


def test_bodies_are_found_in_any_order() -> None:
    """Each once; those that nobody will want aren't kept."""
    bodies = Bodies([body(number, str(number)) for number in (1, 2, 3, 4)], [1, 3, 4])
    taken = [bodies.take(ticket) for ticket in (3, 1, 2, 4, 4)]
    assert [each and each.body for each in taken] == ["3", "1", None, "4", None]


def test_whether_there_is_anything_to_send() -> None:
    """A recorded body always is; else it depends on the path."""
    assert can_be_sent(request(path="/odd", has_body=True))
    assert can_be_sent(request())
    assert not can_be_sent(request(path="/odd"))


ODD = "/odd"
SECOND = RequestResult(200, "", None, 1.0, None)


def message(each: RecordedRequest) -> OutgoingRequest | None:
    """Nothing much; there is none of an odd path."""
    if each.path == ODD:
        return None
    return OutgoingRequest(
        b"POST", each.path.encode(), [], str(each.ticket).encode(), DIALECTS["plain"], Facts(), False
    )


def sent(requests: Sequence[RecordedRequest], *, takes_s: float = 1.0, speed: float = 1.0) -> list[Sent]:
    """A run against something that takes so long for an answer."""

    async def send(_: OutgoingRequest) -> RequestResult:
        await asyncio.sleep(takes_s)
        return RequestResult(200, "", None, takes_s, None)

    async def run() -> list[Sent]:
        sender = Sender(send, message, speed=speed)
        await sender.run(requests)
        assert sender.in_flight == 0
        return sender.sent

    return run_virtual(run())


def moments(found: Sequence[Sent]) -> list[tuple[int, float, float]]:
    """Which, when, how late."""
    return [(each.request.ticket, round(each.at_s, 3), round(each.late_s, 3)) for each in found]


def test_requests_go_as_they_were_recorded() -> None:
    """Counted from the first, whatever the answers take; those of one moment go together."""
    requests = [request(1, 10.0), request(2, 10.0), request(3, 10.5), request(4, 14.0)]
    assert moments(sent(requests, takes_s=9.0)) == [(1, 0.0, 0.0), (2, 0.0, 0.0), (3, 0.5, 0.0), (4, 4.0, 0.0)]


@pytest.mark.parametrize(("speed", "at"), [(4.0, 1.0), (0.5, 8.0)])
def test_faster_or_slower(speed: float, at: float) -> None:
    """Times are divided."""
    assert moments(sent([request(1, 1.0), request(2, 5.0)], speed=speed)) == [(1, 0.0, 0.0), (2, at, 0.0)]


def test_it_can_be_stopped() -> None:
    """What was over is counted, what flies is given up, and nothing more goes."""

    async def send(each: OutgoingRequest) -> RequestResult:
        await asyncio.sleep(1.0 if each.body == b"1" else 100.0)
        return SECOND

    async def run() -> Sender:
        sender = Sender(send, message)
        going = asyncio.create_task(sender.run([request(1, 0.0), request(2, 0.0), request(3, 50.0)]))
        await asyncio.sleep(2.0)
        going.cancel()
        with pytest.raises(asyncio.CancelledError):
            await going
        return sender

    sender = run_virtual(run())
    assert [each.request.ticket for each in sender.sent] == [1]
    assert sender.in_flight == 0
