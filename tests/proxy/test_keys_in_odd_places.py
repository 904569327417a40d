"""A key is forwarded and shown nowhere, wherever in a request it stands: every place against every output."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from urllib.parse import quote

import pytest
from program import called
from proxy.kit import Running, between, client, proxying
from proxy.wire import ANSWER, anthropic_error, http
from upstream.scripted import Scripted, serving

from hivemind import agent_names
from hivemind.agent_names import LOOKS_LIKE_A_KEY
from hivemind.cli.main import main
from hivemind.control import parsing
from hivemind.redaction.text import LABEL_LENGTH
from hivemind.scheduler.commands import Rejected, StopAgent
from hivemind.store.token_file import ControlKey

KNOWN = "sk-ant-api03-THISISSECRET0123456789"
"""A key that is known by its form."""
OWN = "gateway.secret.of.this.request"
"""One that isn't, which the request comes with."""
FOREIGN = "ghp_THISISSECRET0123456789abcdefghijklmn"
"""One of another service."""
SECRETS = (KNOWN, OWN, FOREIGN, quote(OWN, safe="").replace(".", "%2E"), "THISISSECRET", "gateway.sec")


def body(model: str = "m", text: str = "hi", session: str = "") -> bytes:
    """A request's body."""
    user = json.dumps({"session_id": session})
    messages = [{"role": "user", "content": text}]
    return json.dumps({"model": model, "max_tokens": 9, "metadata": {"user_id": user}, "messages": messages}).encode()


def spelled(text: str) -> str:
    """Every character percent-encoded."""
    return "".join(f"%{byte:02X}" for byte in text.encode())


PLACES: dict[str, tuple[str, dict[str, str], bytes]] = {
    "model": ("/v1/messages", {}, body(model=KNOWN)),
    "own key as model": ("/v1/messages", {}, body(model=f"x/{OWN}")),
    "long model": ("/v1/messages", {}, body(model="m" * 150 + " " + KNOWN * 9 + OWN + "z" * 9000)),
    "model in the path": (f"/v1beta/models/{KNOWN}:generateContent", {}, b'{"contents":[]}'),
    "own key in the path": (f"/v1beta/models/{OWN}:generateContent", {}, b'{"contents":[]}'),
    "path": (f"/openai/deployments/{FOREIGN}/chat/completions", {}, body()),
    "spelled in the path": (f"/openai/deployments/{spelled(OWN)}/chat/completions", {}, body()),
    "spelled twice": (f"/openai/deployments/{quote(spelled(KNOWN))}/chat/completions", {}, body()),
    "query": (f"/v1/messages?q={FOREIGN}&key={OWN}&r={OWN}&s={spelled(KNOWN)}", {}, body()),
    "session header": ("/v1/messages", {"x-claude-code-session-id": OWN}, body()),
    "session header, known": ("/v1/messages", {"session-id": "gsk_" + FOREIGN[4:]}, body()),
    "sub-agent": ("/v1/messages", {"x-claude-code-session-id": "s", "x-claude-code-agent-id": KNOWN}, body()),
    "session in the body": ("/v1/messages", {}, body(session=FOREIGN)),
    "unknown header": ("/v1/messages", {"x-tenant": OWN, "x-other": FOREIGN, f"x-{FOREIGN.lower()}": "1"}, body()),
    "known header": ("/v1/messages", {"user-agent": f"me ({OWN}) {FOREIGN}", "x-stainless-os": KNOWN}, body()),
    "cookie": ("/v1/messages", {"cookie": f"a=1; session={OWN}"}, body(text=f"it is {OWN}")),
    "text": ("/v1/messages", {}, body(text=f"keys:\n{FOREIGN}\n{KNOWN} and {OWN}")),
}


async def outputs(proxy: Running) -> str:
    """All that a running proxy shows."""
    shown = [repr(proxy.snapshot()), repr(proxy.proxy.engine.requests(0)), json.dumps(await proxy.stats())]
    shown += [repr(proxy.proxy.detail(view.ticket)) for view in proxy.proxy.engine.requests(0).changed]
    return "\n".join(shown)


def written(folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """All that is on disk, and what is made of the journal."""
    (journal,) = (folder / "journals").iterdir()
    for form, name in (("--csv", "out.csv"), ("--har", "out.har")):
        assert main(["journal", "export", str(journal), form, "--out", str(folder / name)]) == 0
    assert main(["report", str(journal), "--markdown", "--out", str(folder / "out.md")]) == 0
    for flags in ((), ("--json",)):
        assert main(["journal", "show", str(journal), *flags]) == 0
    files = [each for each in folder.rglob("*") if each.is_file()]
    assert len(files) >= 5
    names = "\n".join(str(each.relative_to(folder)) for each in files)
    return "\n".join([names, capsys.readouterr().out, *(each.read_bytes().decode("latin-1") for each in files)])


def recorded_in(folder: Path) -> str:
    """The journals' lines."""
    return "".join(each.read_text("utf-8") for each in folder.iterdir())


@pytest.mark.parametrize(
    "place", [pytest.param(place, marks=pytest.mark.slow if n % 3 else ()) for n, place in enumerate(PLACES)]
)
async def test_no_output_has_it(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Neither journal, CSV, HAR, report, checkpoint, log, statistics nor detail; the upstream gets it as it came."""
    caplog.set_level(logging.DEBUG, "hivemind")
    path, headers, content = PLACES[place]
    failing = http(400, anthropic_error("invalid_request_error", f"not {OWN}, {KNOWN}"))
    folders = {"keep_in": tmp_path / "checkpoints", "record_in": tmp_path / "journals"}
    async with between([ANSWER], [failing], **folders, journal={"bodies": True}) as (proxy, upstream), client() as web:
        for _ in range(2):
            await web.post(proxy.url + path, content=content, headers={"x-api-key": OWN, **headers})
        shown = await outputs(proxy)
        for agent in proxy.snapshot().agents:
            proxy.proxy.apply(StopAgent(agent.name, True))
            assert proxy.proxy._checkpointer is not None
            assert await proxy.proxy._checkpointer.written(agent.name)
    sent = upstream.requests[0]
    assert len(upstream.requests) == 2
    assert sent.endswith(content)
    assert OWN.encode() in sent
    everything = f"{shown}\n{written(tmp_path, capsys)}\n{caplog.text}"
    assert [secret for secret in SECRETS if secret in everything] == []


async def test_what_a_request_lends(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A key for a tool's server, which an error repeats: neither log nor journal has it."""
    caplog.set_level(logging.DEBUG, "hivemind")
    lent = "lent.to.a.server.of.tools"
    servers = [{"type": "url", "url": "https://x", "authorization_token": lent}]
    content = json.dumps({"model": "m", "max_tokens": 9, "messages": [], "mcp_servers": servers}).encode()
    failing = http(400, anthropic_error("invalid_request_error", f"no server for {lent}"))
    async with between([failing], record_in=tmp_path, journal={"bodies": True}) as (proxy, upstream), client() as web:
        await web.post(f"{proxy.url}/v1/messages", content=content, headers={"x-api-key": OWN})
        shown = await outputs(proxy)
    assert upstream.requests[0].endswith(content)
    assert "no server for ***" in recorded_in(tmp_path)
    assert lent not in shown + recorded_in(tmp_path) + caplog.text


@pytest.mark.parametrize(
    "header",
    [
        f"authorization: AWS4-HMAC-SHA256 Credential=a/b, SignedHeaders=host, Signature={OWN}",
        f'authorization: Digest username="ann", response="{OWN}"',
        f"x-{KNOWN.lower().replace('-', '_')}: 1",
        f"x-{spelled(KNOWN)}: 1",
    ],
)
async def test_odd_headers(header: str, tmp_path: Path) -> None:
    """A signature that an error repeats, and a key as the name of a header, whose letters are small by then."""
    failing = http(400, anthropic_error("invalid_request_error", f"not {OWN}"))
    async with between([failing], record_in=tmp_path, journal={"bodies": True}) as (proxy, _), client() as web:
        name, _, value = header.partition(": ")
        await web.post(f"{proxy.url}/v1/messages", content=body(), headers={name: value})
        shown = await outputs(proxy)
    everything = (shown + recorded_in(tmp_path)).lower()
    wrong = (OWN if OWN in header else "", "thisissecret", spelled("THISISSECRET").lower())
    assert [each for each in wrong if each and each in everything] == []


async def test_refusals_repeat_no_key() -> None:
    """As a host, as a page's origin, and in what is asked of the control API."""
    async with between([ANSWER]) as (proxy, _), client() as web:
        proxy.proxy.control_key = ControlKey("run-1", "control-token")
        for headers in ({"host": FOREIGN}, {"origin": f"https://{FOREIGN}"}):
            answer = await web.get(f"{proxy.url}/v1/models", headers=headers)
            assert (answer.status_code in (403, 421), FOREIGN in answer.text) == (True, False)
        bearer = {"authorization": "Bearer control-token"}
        for target in (f"checkpoints/{FOREIGN}", f"snapshot?{FOREIGN}=1"):
            answer = await web.get(f"{proxy.url}/_control/{target}", headers=bearer)
            assert (answer.status_code in (404, 422), FOREIGN in answer.text) == (True, False)


def test_errors_of_commands_repeat_no_key(tmp_path: Path) -> None:
    """What was wrong may be a key: as a command, a flag, a setting's value or a key of a plan."""
    (tmp_path / "plan.yaml").write_text(f"tasks: {{a: {{command: [x], {FOREIGN}: 1}}}}")
    for args in (
        (FOREIGN,),
        ("proxy", "--config", FOREIGN),
        ("proxy", "--port", FOREIGN),
        ("batch", "plan.yaml", "--check"),
    ):
        done = called(tmp_path, args, {})
        assert (done.code, FOREIGN in done.err) == (2, False), done


@pytest.mark.parametrize("name", [KNOWN, FOREIGN, OWN, f"a-{OWN}", spelled(KNOWN), "a-" * 4000])
async def test_as_an_agent_s_name(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """It is refused with one clear line that doesn't repeat it, in the path and in the header."""
    async with between([ANSWER]) as (proxy, upstream), client() as web:
        told = (LOOKS_LIKE_A_KEY, "at most 80 characters")
        for path, headers in ((f"/agent/{name}/v1/messages", {}), ("/v1/messages", {"x-hivemind-agent": name})):
            answer = await web.post(proxy.url + path, content=body(), headers={"x-api-key": OWN, **headers})
            assert answer.status_code == 400
            assert any(each in answer.json()["error"]["message"] for each in told)
            assert [secret for secret in (name, *SECRETS) if secret in f"{answer.text}{await outputs(proxy)}"] == []
        assert upstream.requests == []


@pytest.mark.parametrize("model", ["claude\x1b[2J\nsonnet", "m" * 1_000_000, "\N{RIGHT-TO-LEFT OVERRIDE}gpt"])
async def test_the_length_and_letters_of_a_model(model: str, tmp_path: Path) -> None:
    """What is counted and recorded of its name is short and printable; two long names stay two."""
    async with between([ANSWER], record_in=tmp_path) as (proxy, upstream), client() as web:
        for end in "ab":
            await web.post(f"{proxy.url}/v1/messages", content=body(model=model + end))
            assert upstream.requests[-1].endswith(body(model=model + end))
        models = {view.model for view in proxy.proxy.engine.requests(0).changed}
        assert len(models) == 2
        assert all(len(each) <= LABEL_LENGTH and each.isprintable() for each in models)
    assert len(recorded_in(tmp_path)) < 20_000


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_the_password_of_a_proxy_on_the_way(
    scheme: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One that repeats it in its reason has it masked, in each of its spellings."""
    caplog.set_level(logging.DEBUG, "hivemind")
    # base64 of `ann:p@ss w0rd`
    spellings = ("p@ss w0rd", "p%40ss%20w0rd", "YW5uOnBAc3MgdzByZA==")
    reason = f"ann {' '.join(spellings)}".encode()

    async def handle(script: Scripted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await script.request(reader)
        writer.write(
            b"HTTP/1.1 407 " + reason + b"\r\nx-reason: " + reason + b"\r\n"
            b"content-length: %d\r\nconnection: close\r\n\r\n%b" % (len(reason), reason)
        )
        writer.close()

    async with (
        serving(handle) as middle,
        proxying(
            f"lab={scheme}://127.0.0.1:9",
            via=f"http://ann:p%40ss%20w0rd@127.0.0.1:{middle.port}",
            record_in=tmp_path,
            journal={"bodies": True},
            retry={"max_attempts": 1},
        ) as proxy,
        client() as web,
    ):
        answer = await web.post(f"{proxy.url}/v1/messages", content=body(), headers={"x-api-key": OWN})
        assert answer.status_code >= 400
        shown = await outputs(proxy)
    everything = shown + caplog.text + recorded_in(tmp_path)
    everything += answer.text if scheme == "https" else ""
    assert [each for each in spellings if each in everything] == []


def test_a_long_name_is_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its length is looked at first, wherever somebody gives a name."""

    def searched(_: str) -> bool:
        pytest.fail("searched for keys")

    monkeypatch.setattr(agent_names, "holds_key", searched)
    monkeypatch.setattr(parsing, "holds_key", searched)
    with pytest.raises(agent_names.BadName, match="at most 80"):
        agent_names.normalised("a-" * 4000)
    with pytest.raises(Rejected, match="1 to 40"):
        parsing.checked_who("a-" * 4000)
