"""`hivemind replay` as a program, against servers on real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from commands.kit import run, started
from lab.loadtest_kit import HERE, arrived, body, finished, journal, opened
from proxy.kit import Running, client, proxying
from starlette.types import Message, Receive, Scope, Send

from hivemind.cli import main as cli
from hivemind.journal.read.reader import open_journal
from hivemind.lab.loadtest.result import LoadTestResult, as_json, as_text, make_plan
from hivemind.lab.loadtest.sender import run_load_test
from hivemind.lab.loadtest.target import TargetInfo, probe_target, target_of
from hivemind.proxy.asgi import read_body
from hivemind.records import replace
from hivemind.scheduler.events import Event
from hivemind.scheduler.types import Priority
from hivemind.settings import Settings
from hivemind.settings.sections import Secret
from hivemind.upstream.connect import open_upstream
from hivemind_mock.provider.answer import DROP
from hivemind_mock.provider.app import MockProvider
from hivemind_mock.provider.config import FaultConfig, LatencyConfig, LimitConfig, MockConfig
from hivemind_mock.provider.serve import serving

SETTINGS = Settings(upstream=(HERE,))
TOKEN = "let-me-in"
SECRET = "sk-ant-api03-fresh-0123456789"
QUICK = MockConfig(seed=3, latency=LatencyConfig(base_s=0.01, jitter_s=0.0))
PATHS = (
    "/v1/messages",
    "/v1/chat/completions",
    "/v1/responses",
    "/v1beta/models/claude-sonnet-5:streamGenerateContent",
    "/api/chat",
)
ANSWER = b'{"type":"message","content":[],"usage":{"input_tokens":60,"output_tokens":40}}'


class Listening:
    """A provider that writes down what it is asked, and answers once `together` requests are there."""

    def __init__(self, together: int = 1) -> None:
        self.asked: list[tuple[dict[bytes, bytes], bytes]] = []
        self.enough = asyncio.Event()
        self._together = together

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        data = await read_body(receive)
        if scope["method"] == "GET":
            await _answer(send, 404, b"{}")
            return
        assert data is not None
        self.asked.append((dict(scope["headers"]), data))
        if len(self.asked) >= self._together:
            self.enough.set()
        await self.enough.wait()
        await _answer(send, 200, ANSWER)


async def _answer(send: Send, status: int, data: bytes) -> None:
    head: Message = {"type": "http.response.start", "status": status}
    await send({**head, "headers": [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(data))]})
    await send({"type": "http.response.body", "body": data})


def asked(count: int = 4, *, every_s: float = 0.01, path: str = "/v1/messages", **changes: Any) -> list[Event]:
    """So many requests of two agents in turn, each answered."""
    events: list[Event] = [opened()]
    for number in range(1, count + 1):
        agent, at = ("ann", "bob")[number % 2], number * every_s
        events += [arrived(number, at, agent, path=path, **changes), finished(number, at + 0.005, agent)]
    return events


@asynccontextmanager
async def mocked(config: MockConfig = QUICK) -> AsyncIterator[tuple[str, MockProvider]]:
    """The mock provider, served."""
    mock = MockProvider(config)
    async with asyncio.timeout(60), serving(mock) as url:
        yield url, mock


async def load_test(file: Path, url: str, *, settings: Settings = SETTINGS, **options: Any) -> LoadTestResult:
    """Run a load test in this process, which goes well; the environment has one key."""
    target = target_of(url)
    plan = make_plan(open_journal(file), target, **options)
    environ = {"ANTHROPIC_API_KEY": SECRET, "HIVEMIND_TOKEN": TOKEN}
    return await run_load_test(file, plan, target, environ, settings)


async def sent_to(file: Path, url: str, **options: Any) -> dict[str, Any]:
    """Return the JSON of a load test."""
    facts: dict[str, Any] = msgspec.json.decode(as_json(await load_test(file, url, **options)))
    return facts


async def test_every_api_is_asked_as_it_was(tmp_path: Path) -> None:
    """As many requests, streams and whole ones, as large, and answered as long as they were recorded."""
    events: list[Event] = [opened("generic")]
    for number, path in enumerate(PATHS * 2, 1):
        streams = number > len(PATHS) or "stream" in path
        events += [arrived(number, number / 100, path=path, stream=streams), finished(number, number / 100 + 0.05)]
    async with mocked() as (url, mock):
        facts = await sent_to(journal(tmp_path / "all.jsonl", *events), url)
    assert (mock.stats.arrived, mock.stats.answered) == (10, 10)
    assert (facts["now"]["statuses"], facts["now"]["errors"]) == ({"200": 10}, {})
    assert facts["now"]["output_tokens"] == facts["recorded"]["output_tokens"] == 400
    assert (facts["now"]["uncounted"], facts["made_up"], facts["hivemind"]) == (0, 10, False)
    assert facts["now"]["first_p50_s"] is not None


@pytest.mark.parametrize(
    ("config", "stream", "statuses", "errors"),
    [
        (replace(QUICK, limits=LimitConfig(rpm=1)), False, {"200": 1, "429": 3}, {"rate_limited": 3}),
        (replace(QUICK, faults=FaultConfig(overloaded=1.0)), True, {"529": 4}, {"overloaded": 4}),
        (replace(QUICK, faults=FaultConfig(bad_gateway=1.0)), True, {"502": 4}, {"server_error": 4}),
        (replace(QUICK, faults=FaultConfig(reset_mid=1.0)), False, {"200": 4}, {"truncated": 4}),
        (replace(QUICK, faults=FaultConfig(truncated=1.0)), True, {"200": 4}, {"truncated": 4}),
        (replace(QUICK, faults=FaultConfig(error_mid=1.0)), True, {"200": 4}, {"overloaded": 4}),
    ],
)
async def test_what_goes_wrong_is_counted(
    tmp_path: Path, config: MockConfig, stream: bool, statuses: dict[str, int], errors: dict[str, int]
) -> None:
    """By status and by kind; nothing is tried again, and the load test itself went well."""
    async with mocked(config) as (url, mock):
        file = journal(tmp_path / "run.jsonl", *asked(stream=stream))
        facts = await sent_to(file, url)
    assert (facts["now"]["statuses"], facts["now"]["errors"]) == (statuses, errors)
    assert mock.stats.arrived == 4


@pytest.mark.slow
async def test_what_ends_without_an_answer_is_not_sent_twice(tmp_path: Path) -> None:
    """Not even on a connection that had served others; and where nothing is answered at all, that is an error."""
    file = journal(tmp_path / "run.jsonl", *asked(20))
    async with mocked(replace(QUICK, faults=FaultConfig(reset=0.5))) as (url, mock):
        facts = await sent_to(file, url)
        assert mock.stats.arrived == 20
    assert facts["now"]["errors"] == {"disconnected": facts["now"]["statuses"]["none"]}
    async with mocked(replace(QUICK, faults=FaultConfig(reset=1.0))) as (url, mock):
        ended = await started(tmp_path, "replay", str(file), "--against", url)
    assert ended.both == (1, f"hivemind: {url} answered none of 20 requests: connection reset by peer")


async def test_through_a_hivemind_agents_keep_their_names(tmp_path: Path) -> None:
    """And priorities; faults behind it don't show."""
    faulty = replace(QUICK, faults=FaultConfig(bad_gateway=0.3))
    file = journal(tmp_path / "run.jsonl", *asked(8, asked=Priority.LOW, stream=True))
    async with mocked(faulty) as (url, mock), proxying(f"lab={url}", token=TOKEN) as proxy:
        facts = await sent_to(file, proxy.url)
        agents = {each.name: (each.requests, each.priority) for each in proxy.snapshot().agents}
    assert facts["hivemind"]
    assert facts["now"]["statuses"] == {"200": 8}
    assert mock.stats.arrived > 8
    assert agents == {"ann": (4, Priority.LOW), "bob": (4, Priority.LOW)}


async def test_what_a_proxy_recorded_goes_again_to_the_byte(tmp_path: Path) -> None:
    """Its journal has what agents sent, without their key; the key of whoever sends it again takes its place."""
    question = b'{"model":"claude-sonnet-5","max_tokens":9,"messages":[{"role":"user","content":"h\xc3\xa9 \\n"}]}'
    async with serving(Listening()) as upstream, recording(tmp_path, upstream) as proxy:
        await _recorded_request(proxy, question, "sk-ant-api03-stale-0123456789")
    (recorded,) = (tmp_path / "journals").iterdir()
    assert b"stale" not in recorded.read_bytes()
    listening = Listening()
    async with serving(listening) as url:
        facts = await sent_to(recorded, url)
    ((headers, data),) = listening.asked
    assert (data, headers[b"x-api-key"], headers[b"anthropic-version"]) == (question, SECRET.encode(), b"2023-06-01")
    assert not [name for name in headers if name.startswith(b"x-hivemind")]
    assert facts["made_up"] == 0


@asynccontextmanager
async def recording(folder: Path, upstream: str) -> AsyncIterator[Running]:
    """A proxy that writes a journal, with bodies."""
    async with proxying(f"lab={upstream}", record_in=folder / "journals", journal={"bodies": True}) as proxy:
        yield proxy


async def _recorded_request(proxy: Running, question: bytes, key: str) -> None:
    async with client() as http:
        headers = {"x-api-key": key, "anthropic-version": "2023-06-01"}
        answer = await http.post(f"{proxy.url}/agent/ann/v1/messages", content=question, headers=headers)
        assert answer.status_code == 200


async def test_it_goes_the_way_that_the_settings_tell(tmp_path: Path) -> None:
    """Through the proxy that `via` names, unless it stays on this machine."""
    listening = Listening()
    file = journal(tmp_path / "run.jsonl", *asked())
    async with serving(listening) as url:
        facts = await sent_to(file, "http://192.0.2.1", settings=Settings(upstream=(HERE,), via=Secret(url)))
        assert (facts["now"]["answered"], len(listening.asked)) == (4, 4)
        assert {headers[b"host"] for headers, _ in listening.asked} == {b"192.0.2.1"}
        nowhere = Secret("http://192.0.2.1:1")
        facts = await sent_to(file, url, settings=Settings(upstream=(HERE,), via=nowhere))
        assert facts["now"]["answered"] == 4


async def test_the_key_is_never_shown(tmp_path: Path) -> None:
    """Not even by an upstream that repeats it."""

    async def repeating(scope: Scope, receive: Receive, send: Send) -> None:
        await read_body(receive)
        key = dict(scope["headers"]).get(b"x-api-key", b"")
        await _answer(send, 401, b'{"type":"error","error":{"type":"authentication_error","message":"%b"}}' % key)

    file = journal(tmp_path / "run.jsonl", *asked())
    async with serving(repeating) as url:
        result = await load_test(file, url)
    for shown in ("\n".join(as_text(result, None)), as_json(result)):
        assert SECRET not in shown
        assert "client_error" in shown.replace("client error", "client_error")


async def test_people_get_a_table(tmp_path: Path) -> None:
    """Then, now and the difference, how well times were kept, and what was left out."""
    events = [*asked(), arrived(9, 0.1, path="/v1/messages/batches")]
    async with mocked() as (url, _):
        file = journal(tmp_path / "run.jsonl", *events)
        lines = as_text(await load_test(file, url, speed=2.0), None)
    assert lines[0] == f"run against {url}, at the recorded times, 2 times as fast"
    assert lines[2].split() == ["RECORDED", "NOW", "DIFFERENCE"]
    assert [line.split() for line in lines if line.startswith(("requests", "status"))] == [
        ["requests", "4", "4"],
        ["status", "200", "4", "4"],
    ]
    assert [line for line in lines if line.startswith("sent late: p50 ")]
    assert lines[-2:] == ["made up: 4 requests", "left out, because they can't be made up: /v1/messages/batches 1"]


async def test_nobody_there_is_told(tmp_path: Path) -> None:
    """In one line, before anything is sent; exit code 1."""
    async with mocked() as (url, _):
        pass
    file = journal(tmp_path / "run.jsonl", *asked())
    ended = await run(tmp_path, "replay", str(file), "--against", url)
    assert ended.both == (1, f"hivemind: nothing can be sent there: {url}: connection refused")


async def test_who_says_nothing_of_itself_is_no_hivemind() -> None:
    """A server that hangs, hangs up or tells other things when it is asked for its health is taken for a provider."""

    async def hanging(scope: Scope, receive: Receive, send: Send) -> None:
        await read_body(receive)
        while (await receive())["type"] != "http.disconnect":
            pass

    async def dropping(scope: Scope, receive: Receive, send: Send) -> None:
        scope["extensions"][DROP](True)

    async def telling(scope: Scope, receive: Receive, send: Send) -> None:
        await _answer(send, 200, b'{"status":"ok"}')

    for app in (hanging, dropping, telling):
        async with asyncio.timeout(20), serving(app) as url:
            upstream = open_upstream(url)
            assert await probe_target(upstream, target_of(url), None, within_s=0.2) == TargetInfo(False)
            await upstream.aclose()


async def test_a_dry_run_sends_nothing(tmp_path: Path) -> None:
    """It tells how much there would be, and what it would cost, and needs no target."""
    opening, first_request, *rest = asked()
    file = journal(tmp_path / "run.jsonl", opening, first_request, body(1, "{}"), *rest)
    async with mocked() as (url, mock):
        ended = await run(tmp_path, "replay", str(file), "--against", url, "--dry-run")
        assert mock.stats.arrived == 0
    assert ended.code == 0
    first, second, last = ended.out.splitlines()
    assert first.startswith("run: 4 requests (about 240 tokens in and 160 out, $0.00")
    assert second == "1 as they were recorded, 3 made up; 0 of them streams"
    assert last == "nothing was sent"
    facts = msgspec.json.decode((await run(tmp_path, "replay", str(file), "--dry-run", "--json")).out)
    assert (facts["requests"], facts["against"], facts["estimate"]["output_tokens"]) == (4, None, 160)


async def test_what_may_cost_money_is_agreed_to_first(tmp_path: Path) -> None:
    """A provider's own address, and a HiveMind here that passes requests on to one: exit code 2, and none arrives."""
    file = journal(tmp_path / "run.jsonl", *asked())
    ended = await run(tmp_path, "replay", str(file), "--against", "https://api.anthropic.com", ANTHROPIC_API_KEY=SECRET)
    assert ended.code == 2
    assert ended.err.startswith("hivemind: 4 requests (about 240 tokens in and 160 out, $0.00")
    assert ended.err.endswith(
        " would go to https://api.anthropic.com; that may cost money, so say --yes if they should\n"
    )
    async with proxying("https://api.anthropic.com") as proxy:
        ended = await run(tmp_path, "replay", str(file), "--against", proxy.url)
        assert proxy.snapshot().totals.requests == 0
    assert ended.code == 2
    assert f"would go to {proxy.url}, which sends them to https://api.anthropic.com; that may cost" in ended.err


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ((), "say where to with --against URL, or see what it would be with --dry-run"),
        (("--speed", "0"), "--speed: must be a number from 0.001 to 10000, not '0'"),
        (("--speed", "nan"), "--speed: must be a number"),
        (("--limit", "0"), "--limit: must be a whole number from 1 to"),
        (("--from", "soon"), "soon: no moment; a time is 18:05"),
        (("--from", "9s", "--to", "8s"), "--to: must not be before --from"),
        (("--from", "1h"), "no request is chosen; the journal's come from 0 to 40 ms after it began"),
        (("--against", "nowhere"), "--against: must be URL or NAME=URL"),
    ],
)
def test_bad_input_is_one_line(
    tmp_path: Path, flags: tuple[str, ...], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, and nothing is sent."""
    file = journal(tmp_path / "run.jsonl", *asked())
    more = () if not flags or flags[0] == "--against" else ("--against", "http://127.0.0.1:9")
    assert cli.main(["replay", str(file), *flags, *more]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith(f"hivemind: {text}")
    assert shown.count("\n") == 1
