"""Work that goes on after the reply that began it is booked once, to the agent that began it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from proxy.kit import Close, Hang, Running, between, raw, request
from proxy.wire import END, JSON, SSE, chunk, chunked, data, event, head, http

from hivemind.scheduler.commands import SetBudget, StopAgent
from hivemind.scheduler.events import FirstContent, PriceUnknown
from hivemind.scheduler.types import Usage
from hivemind.scheduler.work import UNBOOKED

QUEUED: dict[str, object] = {
    "id": "resp_1",
    "object": "response",
    "status": "queued",
    "background": True,
    "output": [],
    "usage": None,
}
USED = {"input_tokens": 100_000, "output_tokens": 50_000, "total_tokens": 150_000}
ALL = 150_000
ASKED = json.dumps({"model": "gpt-4o", "input": "hi", "background": True}).encode()
STREAMED = json.dumps({"model": "gpt-4o", "input": "hi", "background": True, "stream": True}).encode()


def response(status: str, **more: object) -> dict[str, object]:
    return {**QUEUED, "status": status, **more}


async def asked(running: Running, method: str, target: str, body: bytes = b"", agent: str = "a") -> bytes:
    """The body of an answer of 200."""
    async with raw(running.port) as client:
        status, headers = await client.ask(request(f"/agent/{agent}{target}", body, JSON, method=method))
        assert status == 200
        return await client.body(headers)


def used(running: Running, agent: str = "a") -> int:
    found = running.proxy.engine.find(agent)
    return 0 if found is None else found.own.ever.tokens


def in_flight(running: Running) -> int:
    return sum(lane.state.active for lane in running.snapshot().lanes)


DEFERRED = http(200, {"request_id": "d-1"})
POLL = ("GET", "/v1/responses/resp_1")
ENDS: dict[str, tuple[tuple[str, str], bytes, int]] = {
    "completed": (POLL, http(200, response("completed", usage=USED)), ALL),
    "failed after work": (POLL, http(200, response("failed", usage=USED, error={"code": "x", "message": "no"})), ALL),
    "cancelled": (("POST", "/v1/responses/resp_1/cancel"), http(200, response("cancelled")), 0),
    "deleted": (("DELETE", "/v1/responses/resp_1"), http(200, {"id": "resp_1", "deleted": True}), 0),
    "its stream taken up": (
        ("GET", "/v1/responses/resp_1?stream=true&starting_after=1"),
        chunked([event("response.completed", response=response("completed", usage=USED))], SSE),
        ALL,
    ),
}


@pytest.mark.parametrize("name", ENDS)
async def test_a_response_in_the_background(name: str) -> None:
    """It is in flight until it has ended, whoever asks for it and however often, and then its agent has used what it
    states."""
    (method, target), end, tokens = ENDS[name]
    async with between([http(200, QUEUED)], [http(200, response("in_progress"))], [end]) as (running, _):
        await asked(running, "POST", "/v1/responses", ASKED)
        await asked(running, *POLL)
        assert (used(running), in_flight(running)) == (0, 1)
        for _ in range(2):
            await running.proxy.watch.check()
        assert running.snapshot().alarms == ()
        assert [(each.agent, each.kind, each.count) for each in running.snapshot().work] == [("a", "background", 1)]
        for _ in range(2):
            await asked(running, method, target, agent="b")
            assert (used(running), used(running, "b"), in_flight(running)) == (tokens, 0, 0)
        assert running.snapshot().work == ()


async def test_an_agent_ends_at_its_budget() -> None:
    """Whatever it uses beside ordinary answers counts as its provider counts it, and when the budget is used up no more
    is begun."""
    calls = [
        ("POST", "/v1/responses", ASKED, http(200, QUEUED)),
        ("GET", "/v1/responses/resp_1", b"", http(200, response("completed", usage=USED))),
        ("POST", "/v1/messages/batches", MESSAGES, http(200, {"id": "b", "processing_status": "ended"})),
        ("GET", "/v1/messages/batches/b/results", b"", http(200, RESULTS, "content-type: application/x-jsonl")),
        ("POST", "/v1/messages", b'{"model": "claude-sonnet-4-5", "messages": []}', http(200, ADVISED)),
    ]
    async with between(*([reply] for *_, reply in calls)) as (running, upstream):
        running.proxy.engine.apply(SetBudget("a", tokens=ALL + 3000 + 1), "test")
        for method, target, body, _ in calls:
            await asked(running, method, target, body)
        assert used(running) == ALL + 3000 + ADVISED_TOKENS
        for _, target, body, _ in calls[::2]:
            async with raw(running.port) as client:
                assert (await client.ask(request(f"/agent/a{target}", body, JSON)))[0] == 400
        assert len(upstream.requests) == len(calls)


BEGUN = event("response.created", sequence_number=0, response=QUEUED)


RUN: dict[str, object] = {"id": "run_1", "object": "thread.run", "status": "queued", "model": "gpt-4o", "usage": None}
TOKENS = {"prompt_tokens": 100_000, "completion_tokens": 50_000, "total_tokens": 150_000}
WAITS = http(200, {**RUN, "status": "requires_action"})
RUNS = "/v1/threads/t/runs"
OTHERS: dict[str, list[tuple[str, bytes, bytes, int]]] = {
    "a run of a thread": [
        (RUNS, b'{"assistant_id": "a"}', http(200, RUN), 1),
        (f"{RUNS}/run_1", b"", http(200, {**RUN, "status": "in_progress"}), 1),
        (f"{RUNS}/run_1", b"", WAITS, 0),
        (f"{RUNS}/run_1/submit_tool_outputs", b'{"tool_outputs": []}', http(200, RUN), 1),
        (f"{RUNS}/run_1", b"", http(200, {**RUN, "status": "completed", "usage": TOKENS}), 0),
    ],
    "a run whose outputs are sent without a look": [
        ("/v1/threads/runs", b'{"assistant_id": "a"}', http(200, RUN), 1),
        (f"{RUNS}/run_1/submit_tool_outputs", b'{"tool_outputs": []}', http(200, RUN), 1),
        (f"{RUNS}/run_1", b"", http(200, {**RUN, "status": "incomplete", "usage": TOKENS}), 0),
    ],
    "a run in a list": [
        (RUNS, b'{"assistant_id": "a"}', http(200, RUN), 1),
        (f"{RUNS}?limit=1", b"", http(200, {"data": [{**RUN, "status": "completed", "usage": TOKENS}]}), 0),
    ],
    "a deferred completion": [
        ("/v1/chat/completions", b'{"model": "grok-4", "messages": [], "deferred": true}', DEFERRED, 1),
        ("/v1/chat/deferred-completion/d-1", b"", http(202), 1),
        ("/v1/chat/deferred-completion/d-1", b"", http(200, {"id": "c", "choices": [{}], "usage": TOKENS}), 0),
    ],
}


@pytest.mark.parametrize("name", OTHERS)
async def test_other_forms_of_work_in_the_background(name: str) -> None:
    """They hold a slot while they run, not while they wait for their client, and are booked once."""
    calls = OTHERS[name]
    async with between(*([reply] for _, _, reply, _ in [*calls, calls[-1]])) as (running, _):
        for target, body, reply, slots in [*calls, calls[-1]]:
            async with raw(running.port) as client:
                await client.send(request(f"/agent/a{target}", body, JSON, method="POST" if body else "GET"))
                status, headers = await client.head()
                assert status == int(reply[9:12])
                await client.body(headers)
            assert in_flight(running) == slots
        assert (used(running), running.snapshot().work) == (ALL, ())


JOB: dict[str, object] = {"name": "projects/p/locations/l/batchPredictionJobs/7", "state": "JOB_STATE_PENDING"}
JOBS = "/v1/projects/p/locations/l/batchPredictionJobs"


async def test_a_batch_that_ends_without_a_word_of_what_it_used() -> None:
    """It is shown as not booked; Vertex has its results where HiveMind never sees them."""
    done = {**JOB, "state": "JOB_STATE_SUCCEEDED"}
    async with between([http(200, JOB)], [http(200, done)]) as (running, _):
        await asked(running, "POST", JOBS, b'{"model": "publishers/google/models/gemini-2.5-flash"}')
        assert [each.kind for each in running.snapshot().work] == ["batch"]
        await asked(running, "GET", f"{JOBS}/7")
        assert [each.kind for each in running.snapshot().work] == [UNBOOKED["batch"]]
        assert used(running) == 0


async def test_a_batch_of_which_nothing_succeeded() -> None:
    """It costs nothing, which is known."""
    for counts in ({"succeeded": 0, "errored": 2}, {"total": 2, "completed": 0, "failed": 2}):
        replies = [http(200, {**BATCH, "status": state, "request_counts": counts}) for state in ("running", "expired")]
        async with between(*([each] for each in replies)) as (running, _):
            await asked(running, "POST", "/v1/messages/batches", MESSAGES)
            await asked(running, "GET", "/v1/messages/batches/batch_1")
            assert (used(running), running.snapshot().work) == (0, ())


RUN_DONE = {**RUN, "status": "completed", "usage": TOKENS}
STREAMS: dict[str, tuple[str, bytes, list[bytes], bytes, str, dict[str, object]]] = {
    "a response": (
        "/v1/responses",
        STREAMED,
        [BEGUN],
        event("response.completed", sequence_number=1, response=response("completed", usage=USED)),
        "/v1/responses/resp_1",
        response("completed", usage=USED),
    ),
    "a thread and its run": (
        "/v1/threads/runs",
        b'{"assistant_id": "a", "stream": true}',
        [b"event: thread.created\n" + data(id="t", object="thread"), b"event: thread.run.created\n" + data(**RUN)],
        b"event: thread.run.completed\n" + data(**RUN_DONE),
        f"{RUNS}/run_1",
        RUN_DONE,
    ),
    "a run that goes on with its tools' outputs": (
        f"{RUNS}/run_1/submit_tool_outputs",
        b'{"tool_outputs": [], "stream": true}',
        [b"event: thread.run.queued\n" + data(**RUN)],
        b"event: thread.run.completed\n" + data(**RUN_DONE),
        f"{RUNS}/run_1",
        RUN_DONE,
    ),
}


MULTIPART = b"""--b\r\nContent-Disposition: form-data; name="prompt"\r\n\r\na cat\r
--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nsora-2-pro\r\n--b--\r\n"""
FORM = "content-type: multipart/form-data; boundary=b"
OPERATION = "projects/p/locations/l/publishers/google/models/veo-3/operations/7"
PRICED: dict[str, tuple[str, bytes, str, dict[str, object], tuple[str, bytes], dict[str, object], str]] = {
    "video: OpenAI's": (
        "/v1/videos",
        MULTIPART,
        "sora-2-pro",
        {"id": "video_1", "object": "video", "status": "queued", "progress": 0},
        ("/v1/videos/video_1", b""),
        {"id": "video_1", "object": "video", "status": "completed", "progress": 100},
        "",
    ),
    "video: Azure's": (
        "/openai/v1/video/generations/jobs",
        b'{"model": "sora", "prompt": "a cat", "n_seconds": 5}',
        "sora",
        {"id": "task_1", "status": "preprocessing"},
        ("/openai/v1/video/generations/jobs/task_1?api-version=preview", b""),
        {"id": "task_1", "status": "succeeded", "generations": [{"id": "gen_1"}]},
        "",
    ),
    "video: xAI's": (
        "/v1/videos/generations",
        b'{"model": "grok-imagine-video", "prompt": "a cat"}',
        "grok-imagine-video",
        {"request_id": "r-1"},
        ("/v1/videos/r-1", b""),
        {"video": {"url": "https://v.example/1.mp4", "duration": 6}, "model": "grok-imagine-video"},
        "",
    ),
    "video: Gemini's": (
        "/v1beta/models/veo-3:predictLongRunning",
        b'{"instances": [{"prompt": "a cat"}]}',
        "veo-3",
        {"name": "models/veo-3/operations/7"},
        ("/v1beta/models/veo-3/operations/7", b""),
        {"name": "models/veo-3/operations/7", "done": True, "response": {"generateVideoResponse": {}}},
        "",
    ),
    "video: Vertex's, asked for by a POST": (
        "/v1/projects/p/locations/l/publishers/google/models/veo-3:predictLongRunning",
        b'{"instances": [{"prompt": "a cat"}]}',
        "veo-3",
        {"name": OPERATION},
        (
            "/v1/projects/p/locations/l/publishers/google/models/veo-3:fetchPredictOperation",
            json.dumps({"operationName": OPERATION}).encode(),
        ),
        {"name": OPERATION, "done": True, "response": {"videos": [{"bytesBase64Encoded": "AAAA" * 100_000}]}},
        "",
    ),
    "video: Alibaba's, in vain": (
        "/api/v1/services/aigc/video-generation/video-synthesis",
        b'{"model": "wan2.2-t2v-plus", "input": {"prompt": "a cat"}}',
        "wan2.2-t2v-plus",
        {"request_id": "q", "output": {"task_id": "t-1", "task_status": "PENDING"}},
        ("/api/v1/tasks/t-1", b""),
        {"request_id": "p", "output": {"task_id": "t-1", "task_status": "FAILED", "message": "no"}},
        "nothing",
    ),
    "video: Volcengine's, which states tokens": (
        "/api/v3/contents/generations/tasks",
        b'{"model": "seedance-1-0-pro", "content": [{"type": "text", "text": "a cat"}]}',
        "seedance-1-0-pro",
        {"id": "cgt-1"},
        ("/api/v3/contents/generations/tasks/cgt-1", b""),
        {"id": "cgt-1", "status": "succeeded", "usage": {"completion_tokens": 246840, "total_tokens": 246840}},
        "246840",
    ),
    "job: a training": (
        "/v1/fine_tuning/jobs",
        b'{"model": "gpt-4o", "training_file": "file-1"}',
        "gpt-4o",
        {"id": "ftjob-1", "status": "validating_files"},
        ("/v1/fine_tuning/jobs/ftjob-1", b""),
        {"id": "ftjob-1", "status": "succeeded", "model": "gpt-4o", "trained_tokens": 5000},
        "",
    ),
    "job: a run of an eval, which states tokens": (
        "/v1/evals/e/runs",
        b'{"data_source": {"type": "completions", "model": "gpt-4o"}}',
        "gpt-4o",
        {"id": "evalrun_1", "status": "queued", "per_model_usage": None},
        ("/v1/evals/e/runs/evalrun_1", b""),
        {
            "id": "evalrun_1",
            "status": "completed",
            "per_model_usage": [
                {"model_name": "gpt-4o", "prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150},
                {"model_name": "o4-mini", "prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25},
            ],
        },
        "175",
    ),
    "job: a dream, which states tokens": (
        "/v1/dreams",
        b'{"model": "claude-opus-4-6", "inputs": []}',
        "claude-opus-4-6",
        {"id": "drm_1", "type": "dream", "status": "pending", "usage": {"input_tokens": 0, "output_tokens": 0}},
        ("/v1/dreams/drm_1?beta=true", b""),
        {"id": "drm_1", "type": "dream", "status": "canceled", "usage": {"input_tokens": 70, "output_tokens": 7}},
        "77",
    ),
}


@pytest.mark.parametrize("name", PRICED)
async def test_a_video_or_another_job(name: str) -> None:
    """It is work beside the slots, without made-up tokens, and told as of unknown price once it has ended, unless it
    came to nothing or its provider states tokens."""
    path, body, model, begun, (poll, asking), done, used_up = PRICED[name]
    media = FORM if body is MULTIPART else JSON
    going_on = {**begun, "done": False}
    replies = [[http(200, each)] for each in (begun, going_on, done, done)]
    async with between(*replies) as (running, upstream):
        running.proxy.engine.price_by(lambda provider, model, usage: None)
        running.proxy.engine.apply(SetBudget("a", dollars=1.0), "test")
        unpriced: list[PriceUnknown] = []
        running.proxy.engine.hooks.watched[PriceUnknown] = unpriced.append
        async with raw(running.port) as client:
            await client.body((await client.ask(request(f"/agent/a{path}", body, media)))[1])
        for ended in (False, True, True):
            shown = [(each.agent, each.kind, each.count) for each in running.snapshot().work]
            assert (shown, used(running), in_flight(running)) == ([("a", name.partition(":")[0], 1)], 0, 0) or ended
            await asked(running, "POST" if asking else "GET", poll, asking, agent="b")
        kinds = [] if used_up else [f"ended, price unknown: {name.partition(':')[0]}"]
        assert [each.kind for each in running.snapshot().work] == kinds
        assert (used(running), used(running, "b")) == (int(used_up) if used_up.isdigit() else 0, 0)
        assert model in {each.model for each in unpriced} or used_up == "nothing"
        assert len(upstream.requests) == 4


async def test_a_video_without_a_known_price_is_refused() -> None:
    """Where a budget in dollars refuses what has none."""
    async with between([http(200, {"id": "video_1", "status": "queued"})], budget={"unpriced": "refuse"}) as (
        running,
        up,
    ):
        running.proxy.engine.price_by(lambda provider, model, usage: None)
        running.proxy.engine.apply(SetBudget("a", dollars=1.0), "test")
        for path, body, *_ in PRICED.values():
            async with raw(running.port) as client:
                await client.send(request(f"/agent/a{path}", body, FORM if body is MULTIPART else JSON))
                assert (await client.head())[0] == 400
        assert up.requests == []


@pytest.mark.parametrize("ending", ["cut", "left", "whole"])
@pytest.mark.parametrize("name", STREAMS)
async def test_a_stream_in_the_background(name: str, ending: str) -> None:
    """Its id reaches the client at once, and isn't its first content; after a cut, and when the client leaves, the work
    is in flight until somebody learns what it used. What the stream told isn't booked again."""
    path, body, begun, last, poll, done = STREAMS[name]
    rests: dict[str, list[Any]] = {
        "cut": [asyncio.Event(), Close()],
        "left": [Hang()],
        "whole": [asyncio.Event(), chunk(last) + END],
    }
    rest = rests[ending]
    async with between([head(SSE), *map(chunk, begun), *rest], [http(200, done)]) as (running, upstream):
        seen: list[FirstContent] = []
        running.proxy.engine.hooks.watched[FirstContent] = seen.append
        async with raw(running.port) as client:
            assert (await client.ask(request(f"/agent/a{path}", body, JSON)))[0] == 200
            got = b""
            while str(done["id"]).encode() not in got:
                got += await client.chunk()
            assert (used(running), in_flight(running)) == (0, 1)
            assert [each.state for each in running.proxy.engine.requests(0).changed] == ["background"]
            if ending != "left":
                rest[0].set()
                await (client.rest() if ending == "cut" else client.body([]))
        if ending == "whole":
            await running.until(lambda now: not now.slots)
            assert used(running) == ALL
        else:
            assert in_flight(running) == 1
        for _ in range(2):
            await asked(running, "GET", poll)
            assert (used(running), in_flight(running)) == (ALL, 0)
        assert len(upstream.requests) == 3
        assert seen == []


async def test_a_stopped_agent_has_nothing_in_the_background() -> None:
    """Its slot is free at once; what the work used is booked when it is stated."""
    async with between([http(200, QUEUED)], [http(200, response("completed", usage=USED))]) as (running, _):
        await asked(running, "POST", "/v1/responses", ASKED)
        running.proxy.engine.apply(StopAgent("a", stopped=True), "test")
        await running.until(lambda now: not now.slots)
        await asked(running, *POLL, agent="b")
        assert (used(running), used(running, "b")) == (ALL, 0)


async def test_what_is_not_in_the_background_is_not_booked_again() -> None:
    """A stored response states its usage whenever it is asked for."""
    whole = {**QUEUED, "background": False, "status": "completed", "usage": USED}
    async with between([http(200, whole)]) as (running, _):
        await asked(running, "POST", "/v1/responses", b'{"model": "gpt-4o", "input": "hi"}')
        await asked(running, *POLL)
        assert used(running) == ALL


@pytest.mark.parametrize("path", ["/v1/conversations", "/v1/conversations/conv_1"])
async def test_a_conversation_that_a_model_answers(path: str) -> None:
    """Mistral's are answered at once and cost, at OpenAI's path; OpenAI's are kept, whatever is said in them."""
    kept = {"items": [{"role": "user", "content": 'about "inputs": 1'}]}
    reply = http(200, {"conversation_id": "conv_1", "outputs": [], "usage": TOKENS})
    async with between([reply]) as (running, _):
        await asked(running, "POST", path, json.dumps(kept).encode())
        assert used(running) == 0
        await asked(running, "POST", path, b'{"model": "mistral-large-latest", "inputs": "hi"}')
        assert used(running) == ALL


def lines(*values: object) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


MESSAGE: dict[str, object] = {"model": "claude-sonnet-4-5", "usage": {"input_tokens": 1000, "output_tokens": 500}}
RESULTS = lines(
    {"custom_id": "1", "result": {"type": "succeeded", "message": MESSAGE}},
    {"custom_id": "2", "result": {"type": "expired"}},
    {"custom_id": "3", "result": {"type": "succeeded", "message": {**MESSAGE, "content": "long " * 40_000}}},
)
CHAT: dict[str, object] = {"model": "gpt-4o", "usage": {"prompt_tokens": 1000, "completion_tokens": 500}}
OUTPUTS = lines(*({"custom_id": str(n), "response": {"status_code": 200, "body": CHAT}} for n in range(2)))
BATCH: dict[str, object] = {
    "id": "batch_1",
    "object": "batch",
    "status": "in_progress",
    "output_file_id": None,
    "usage": None,
}
OVER: dict[str, object] = {**BATCH, "status": "completed", "output_file_id": "file-1"}
STATED: dict[str, object] = {"input_tokens": 2000, "output_tokens": 1000, "total_tokens": 3000}
GENERATED: dict[str, object] = {
    "candidates": [{"content": {"parts": [{"text": 'a "usageMetadata": {"promptTokenCount": 7} ' * 300}]}}],
    "usageMetadata": {
        "promptTokenCount": 1000,
        "candidatesTokenCount": 500,
        "promptTokensDetails": [{"tokenCount": 1}],
    },
    "modelVersion": "gemini-2.5-flash",
}
INLINED: dict[str, object] = {
    "inlinedResponses": {"inlinedResponses": [{"response": GENERATED}, {"response": GENERATED}]}
}
GOOGLE: dict[str, object] = {"name": "batches/g-1", "metadata": {"state": "BATCH_STATE_PENDING"}}
ENDED: dict[str, object] = {
    "name": "batches/g-1",
    "metadata": {"state": "BATCH_STATE_SUCCEEDED", "output": INLINED},
    "done": True,
    "response": INLINED,
}
FILED: dict[str, object] = {
    "name": "batches/g-1",
    "metadata": {"state": "BATCH_STATE_SUCCEEDED", "output": {"responsesFile": "files/f1"}},
}
PLAIN = "content-type: application/octet-stream"
MESSAGES = json.dumps({"requests": [{"custom_id": "1", "params": {"model": "claude-sonnet-4-5"}}]}).encode()
BATCHES: dict[str, tuple[str, bytes, dict[str, object], list[tuple[str, bytes]]]] = {
    "Anthropic's": (
        "/v1/messages/batches",
        MESSAGES,
        {"id": "msgbatch_1", "type": "message_batch", "processing_status": "in_progress"},
        [("/v1/messages/batches/msgbatch_1/results", http(200, RESULTS, "content-type: application/x-jsonl"))],
    ),
    "OpenAI's, in its file": (
        "/v1/batches",
        b"{}",
        BATCH,
        [("/v1/batches/batch_1", http(200, OVER)), ("/v1/files/file-1/content", http(200, OUTPUTS, PLAIN))],
    ),
    "OpenAI's, stated": (
        "/v1/batches",
        b"{}",
        BATCH,
        [
            ("/v1/batches/batch_1", http(200, {**OVER, "model": "gpt-4o", "usage": STATED})),
            ("/v1/files/file-1/content", http(200, OUTPUTS, PLAIN)),
        ],
    ),
    "OpenAI's, its file first": (
        "/v1/batches",
        b"{}",
        BATCH,
        [
            ("/v1/files/file-1/content", http(200, OUTPUTS, PLAIN)),
            ("/v1/batches/batch_1", http(200, {**OVER, "model": "gpt-4o", "usage": STATED})),
        ],
    ),
    "OpenAI's, in a list with another's": (
        "/v1/batches",
        b"{}",
        BATCH,
        [
            (
                "/v1/batches?limit=20",
                http(200, {"data": [{**OVER, "model": "gpt-4o", "usage": STATED, "id": n} for n in ("x", "batch_1")]}),
            )
        ],
    ),
    "Together's, in its file": (
        "/v1/batches",
        b"{}",
        {"job": {**BATCH, "status": "VALIDATING"}, "warning": None},
        [("/v1/batches/batch_1", http(200, OVER)), ("/v1/files/file-1/content", http(200, OUTPUTS, PLAIN))],
    ),
    "Mistral's, inlined": (
        "/v1/batch/jobs",
        b"{}",
        {"id": "b", "status": "QUEUED"},
        [
            (
                "/v1/batch/jobs/b?inline=true",
                http(200, {"id": "b", "status": "SUCCESS", "model": "gpt-4o", "outputs": [{"response": CHAT}] * 2}),
            )
        ],
    ),
    "Google's, inlined": (
        "/v1beta/models/gemini-2.5-flash:batchGenerateContent",
        b"{}",
        GOOGLE,
        [("/v1/batches/g-1", http(200, ENDED))],
    ),
    "Google's, in a file": (
        "/v1beta/models/gemini-2.5-flash:batchGenerateContent",
        b"{}",
        GOOGLE,
        [
            ("/v1beta/batches/g-1", http(200, FILED)),
            ("/download/v1beta/files/f1:download", http(200, lines({"response": GENERATED}, {"response": GENERATED}))),
        ],
    ),
}


@pytest.mark.parametrize("name", BATCHES)
async def test_a_batch(name: str) -> None:
    """It costs nothing until it states what it used, is shown as work meanwhile, and is booked once at the price of
    batches, whoever reads its results."""
    path, body, created, replies = BATCHES[name]
    async with between([http(200, created)], *([reply] for _, reply in replies * 2)) as (running, _):
        prices: list[tuple[str, Usage]] = []

        def price(provider: str, model: str, usage: Usage) -> float:
            prices.append((model, usage))
            return 1.0

        running.proxy.engine.price_by(price)
        await asked(running, "POST", path, body)
        assert (used(running), in_flight(running)) == (0, 0)
        assert [(each.agent, each.kind, each.count) for each in running.snapshot().work] == [("a", "batch", 1)]
        for target, reply in replies * 2:
            assert await asked(running, "GET", target, agent="b") == reply.partition(b"\r\n\r\n")[2]
        shown = running.snapshot()
        charged = (used(running), used(running, "b"))
        assert sum(charged) == 3000
        assert charged[0] == 3000 or "first" in name  # else nobody knows whose file that is
        assert {usage.tier for _, usage in prices if usage.total} == {"batch"}
        assert {model for model, usage in prices if usage.total} <= {"claude-sonnet-4-5", "gpt-4o", "gemini-2.5-flash"}
        assert (shown.work, shown.totals.usage.total) == ((), 3000)


ADVISED: dict[str, object] = {
    "id": "m",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5",
    "content": [{"type": "text", "text": "ok"}],
    "stop_reason": "end_turn",
    "usage": {
        "input_tokens": 412,
        "output_tokens": 531,
        "iterations": [
            {"type": "message", "input_tokens": 412, "output_tokens": 89},
            {"type": "advisor_message", "model": "claude-opus-4-6", "input_tokens": 823, "output_tokens": 1612},
            {"type": "message", "input_tokens": 1348, "cache_read_input_tokens": 412, "output_tokens": 442},
        ],
    },
}


ADVISED_TOKENS = 823 + 1612 + 412 + 1348 + 412 + 531


async def test_other_models_of_an_answer_are_booked_as_such() -> None:
    """An advisor's tokens have the advisor's price, and count against the agent's budget as all others."""
    async with between([http(200, ADVISED)]) as (running, _):
        running.proxy.engine.price_by(lambda provider, model, usage: 1.0)
        await asked(running, "POST", "/v1/messages", b'{"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": []}')
        models = {each.model: each.usage.total for each in running.snapshot().models}
        assert models == {"claude-opus-4-6": 823 + 1612, "claude-sonnet-4-5": 412 + 1348 + 412 + 531}
        assert used(running) == ADVISED_TOKENS
        assert running.snapshot().totals.finished == 1
