"""Calls of an official SDK beside chat: `python calls.py SDK BASE_URL`. Each one's replies are a line of JSON.

It runs in an environment of its own, with the newest SDKs.
"""

import asyncio
import hashlib
import inspect
import io
import json
import os
import random
import sys
import uuid

import httpx2

os.urandom = lambda count: b"\1" * count  # boundaries and ids are the same each time
uuid.uuid4 = lambda: uuid.UUID(int=1)
random.random = lambda: 0.5

HI = [{"role": "user", "content": "hi"}]
FILE = ("a.jsonl", b'{"a": 1}\n')
PNG = ("a.png", b"\x89PNG")
PARAMS = [{"custom_id": "1", "params": {"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": HI}}]


def openai():
    from openai import OpenAI

    c = OpenAI(api_key="sk-1", base_url=f"{BASE}/v1", max_retries=0, timeout=20, http_client=recording())
    image = {"model": "gpt-image-1", "prompt": "x"}
    run = {"thread_id": "thread_1", "assistant_id": "asst_1"}
    background = {"model": "gpt-5.4", "input": "hi", "background": True}
    source = {"type": "completions", "model": "gpt-5.4", "source": {"type": "file_id", "id": "file-1"}}
    stored = {"type": "stored_completions"}
    return {
        "files.create": lambda: c.files.create(file=FILE, purpose="batch"),
        "files.retrieve": lambda: c.files.retrieve("file-1"),
        "files.list": lambda: list(c.files.list()),
        "files.content": lambda: c.files.content("file-1").read(),
        "files.delete": lambda: c.files.delete("file-1"),
        "uploads": lambda: c.uploads.upload_file_chunked(
            file=b"x" * 3000, filename="a", bytes=3000, mime_type="text/plain", purpose="batch", part_size=1000
        ),
        "uploads.cancel": lambda: c.uploads.cancel("upload_1"),
        "batches.create": lambda: c.batches.create(
            input_file_id="file-1", endpoint="/v1/responses", completion_window="24h"
        ),
        "batches.retrieve": lambda: c.batches.retrieve("batch_1"),
        "batches.list": lambda: list(c.batches.list()),
        "batches.cancel": lambda: c.batches.cancel("batch_1"),
        "vector_stores.create": lambda: c.vector_stores.create(name="x"),
        "vector_stores.update": lambda: c.vector_stores.update("vs_1", name="y"),
        "vector_stores.search": lambda: list(c.vector_stores.search("vs_1", query="x")),
        "vector_stores.files": lambda: c.vector_stores.files.create_and_poll("file-1", vector_store_id="vs_1"),
        "vector_stores.file_batches": lambda: c.vector_stores.file_batches.create("vs_1", file_ids=["file-1"]),
        "conversations.create": lambda: c.conversations.create(items=HI),
        "conversations.update": lambda: c.conversations.update("conv_1", metadata={"a": "b"}),
        "conversations.items": lambda: c.conversations.items.create("conv_1", items=HI),
        "responses.background": lambda: c.responses.create(**background),
        "responses.stream": lambda: list(c.responses.create(**background, stream=True)),
        "responses.retrieve": lambda: c.responses.retrieve("resp_1"),
        "responses.resume": lambda: list(c.responses.retrieve("resp_1", stream=True, starting_after=1)),
        "responses.cancel": lambda: c.responses.cancel("resp_1"),
        "responses.delete": lambda: c.responses.delete("resp_1"),
        "responses.input_items": lambda: list(c.responses.input_items.list("resp_1")),
        "responses.input_tokens": lambda: c.responses.input_tokens.count(model="gpt-5.4", input="hi"),
        "responses.compact": lambda: c.responses.compact(model="gpt-5.4", input="hi"),
        "responses.connect": lambda: c.responses.connect().enter(),
        "chat.list": lambda: list(c.chat.completions.list()),
        "moderations": lambda: c.moderations.create(input="x"),
        "embeddings": lambda: c.embeddings.create(model="text-embedding-3-small", input="x"),
        "images.generate": lambda: c.images.generate(**image),
        "images.stream": lambda: list(c.images.generate(**image, stream=True)),
        "images.edit": lambda: c.images.edit(**image, image=PNG),
        "audio.speech": lambda: c.audio.speech.create(model="tts-1", voice="alloy", input="x").read(),
        "audio.transcribe": lambda: c.audio.transcriptions.create(model="whisper-1", file=("a.wav", b"RIFF")),
        "audio.translate": lambda: c.audio.translations.create(model="whisper-1", file=("a.wav", b"RIFF")),
        "fine_tuning.create": lambda: c.fine_tuning.jobs.create(model="gpt-5.4", training_file="file-1"),
        "fine_tuning.events": lambda: list(c.fine_tuning.jobs.list_events("ftjob-1")),
        "fine_tuning.pause": lambda: c.fine_tuning.jobs.pause("ftjob-1"),
        "fine_tuning.cancel": lambda: c.fine_tuning.jobs.cancel("ftjob-1"),
        "containers.create": lambda: c.containers.create(name="x"),
        "containers.files": lambda: c.containers.files.create("cntr_1", file=FILE),
        "containers.content": lambda: c.containers.files.content.retrieve("f", container_id="cntr_1").read(),
        "evals.create": lambda: c.evals.create(data_source_config=stored, testing_criteria=[]),
        "evals.run": lambda: c.evals.runs.create("eval_1", data_source=source),
        "evals.runs": lambda: list(c.evals.runs.list("eval_1")),
        "realtime.secret": lambda: c.realtime.client_secrets.create(),
        "realtime.hangup": lambda: c.realtime.calls.hangup("call_1"),
        "realtime.connect": lambda: c.realtime.connect(model="gpt-realtime").enter(),
        "models.list": lambda: list(c.models.list()),
        "videos.create": lambda: c.videos.create(prompt="x"),
        "videos.content": lambda: c.videos.download_content("video_1").read(),
        "videos.remix": lambda: c.videos.remix("video_1", prompt="x"),
        "skills": lambda: c.skills.create(files=[("s/SKILL.md", b"x")]),
        "skills.content": lambda: c.skills.content.retrieve("skill_1").read(),
        "webhooks": lambda: c.webhooks.create(url="https://me.example", event_types=["batch.completed"], name="x"),
        "threads.create": lambda: c.beta.threads.create(),
        "threads.message": lambda: c.beta.threads.messages.create("thread_1", role="user", content="x"),
        "threads.run": lambda: c.beta.threads.runs.create_and_poll(**run),
        "threads.run_stream": lambda: list(c.beta.threads.runs.create(**run, stream=True)),
        "threads.create_and_run": lambda: c.beta.threads.create_and_run(assistant_id="asst_1"),
        "threads.cancel": lambda: c.beta.threads.runs.cancel("run_1", thread_id="thread_1"),
        "threads.outputs": lambda: c.beta.threads.runs.submit_tool_outputs(
            "run_1", thread_id="thread_1", tool_outputs=[]
        ),
        "assistants": lambda: c.beta.assistants.create(model="gpt-5.4"),
        "agents.session": lambda: c.post("/agents/sessions", cast_to=object, body={"agent_id": "agent_1"}),
        "agents.event": lambda: c.post("/agents/sessions/s_1/events", cast_to=object, body={"type": "x"}),
        "agents.artifact": lambda: c.get("/agents/sessions/s_1/artifacts/a_1", cast_to=object),
        "chatkit": lambda: c.beta.chatkit.sessions.create(user="u", workflow={"id": "wf_1"}),
    }


def anthropic():
    from anthropic import Anthropic

    c = Anthropic(api_key="sk-ant-1", base_url=BASE, max_retries=0, timeout=20, http_client=recording())
    return {
        "count_tokens": lambda: c.messages.count_tokens(model="claude-sonnet-4-5", messages=HI),
        "batches.create": lambda: c.messages.batches.create(requests=PARAMS),
        "batches.retrieve": lambda: c.messages.batches.retrieve("msgbatch_1"),
        "batches.list": lambda: list(c.messages.batches.list()),
        "batches.results": lambda: list(c.messages.batches.results("msgbatch_1")),
        "batches.cancel": lambda: c.messages.batches.cancel("msgbatch_1"),
        "batches.delete": lambda: c.messages.batches.delete("msgbatch_1"),
        "beta.batches.create": lambda: c.beta.messages.batches.create(requests=PARAMS),
        "beta.batches.results": lambda: list(c.beta.messages.batches.results("msgbatch_1")),
        "models.list": lambda: list(c.models.list()),
        "models.retrieve": lambda: c.models.retrieve("claude-sonnet-4-5"),
        "files.upload": lambda: c.beta.files.upload(file=FILE),
        "files.download": lambda: c.beta.files.download("file_1").read(),
        "files.list": lambda: list(c.beta.files.list()),
        "files.delete": lambda: c.beta.files.delete("file_1"),
        "skills.create": lambda: c.beta.skills.create(files=[("s/SKILL.md", b"x")]),
        "skills.version": lambda: c.beta.skills.versions.create("skill_1", files=[("s/SKILL.md", b"x")]),
        "memory_stores.create": lambda: c.beta.memory_stores.create(name="x"),
        "memories.create": lambda: c.beta.memory_stores.memories.create("memstore_1", content="x", path="/a"),
        "memories.update": lambda: c.beta.memory_stores.memories.update("m_1", memory_store_id="s_1", content="y"),
        "memory_stores.archive": lambda: c.beta.memory_stores.archive("memstore_1"),
        "agents": lambda: c.beta.agents.create(model="claude-sonnet-4-5", name="x"),
        "environments": lambda: c.beta.environments.create(name="x"),
        "sessions.create": lambda: c.beta.sessions.create(agent="agent_1", environment_id="env_1"),
        "sessions.send": lambda: c.beta.sessions.events.send("sesn_1", events=[{"type": "user.interrupt"}]),
        "sessions.stream": lambda: list(c.beta.sessions.events.stream("sesn_1")),
        "vaults": lambda: c.beta.vaults.create(display_name="x"),
        "deployments.run": lambda: c.beta.deployments.run("depl_1"),
    }


def google():
    from google import genai
    from google.genai import types

    options = types.HttpOptions(base_url=BASE, httpx_client=recording(), httpx_async_client=httpx2.AsyncClient())
    c = genai.Client(api_key="AIza1", http_options=options)
    flash = "gemini-2.5-flash"
    contents = [{"parts": [{"text": "hi"}], "role": "user"}]
    text = types.UploadFileConfig(mime_type="text/plain")
    long = bytes(9 << 20)  # more than one piece

    async def live():
        async with c.aio.live.connect(model=flash):
            pass

    def uploaded():
        upload = types.UploadToFileSearchStoreConfig(mime_type="text/plain")
        stores = c.file_search_stores
        return stores.upload_to_file_search_store(
            file_search_store_name="fileSearchStores/s", file=io.BytesIO(b"x"), config=upload
        )

    return {
        "models.list": lambda: list(c.models.list()),
        "models.get": lambda: c.models.get(model=flash),
        "count_tokens": lambda: c.models.count_tokens(model=flash, contents="hi"),
        "embed": lambda: c.models.embed_content(model="gemini-embedding-001", contents="hi"),
        "images": lambda: c.models.generate_images(model="imagen-4.0-generate-001", prompt="x"),
        "videos": lambda: c.models.generate_videos(model="veo-3.0-generate-001", prompt="x"),
        "operations": lambda: c.operations.get(types.GenerateVideosOperation(name="models/v/operations/o")),
        "files.upload": lambda: c.files.upload(file=io.BytesIO(b"x"), config=text),
        "files.upload, long": lambda: c.files.upload(file=io.BytesIO(long), config=text),
        "files.get": lambda: c.files.get(name="files/f"),
        "files.list": lambda: list(c.files.list()),
        "files.download": lambda: c.files.download(file="files/f"),
        "files.delete": lambda: c.files.delete(name="files/f"),
        "caches.create": lambda: c.caches.create(model=flash, config={"contents": contents}),
        "caches.update": lambda: c.caches.update(name="cachedContents/c", config={"ttl": "9s"}),
        "caches.list": lambda: list(c.caches.list()),
        "batches.create": lambda: c.batches.create(model=flash, src=[{"contents": contents}]),
        "batches.embed": lambda: c.batches.create_embeddings(
            model="gemini-embedding-001", src={"inlined_requests": {"contents": contents}}
        ),
        "batches.get": lambda: c.batches.get(name="batches/b"),
        "batches.list": lambda: list(c.batches.list()),
        "batches.cancel": lambda: c.batches.cancel(name="batches/b"),
        "batches.delete": lambda: c.batches.delete(name="batches/b"),
        "stores.create": lambda: c.file_search_stores.create(config={"display_name": "x"}),
        "stores.upload": uploaded,
        "stores.import": lambda: c.file_search_stores.import_file(
            file_search_store_name="fileSearchStores/s", file_name="files/f"
        ),
        "tokens": lambda: c.auth_tokens.create(config={"uses": 1}),
        "interactions.create": lambda: c.interactions.create(model=flash, input="hi", background=True),
        "interactions.get": lambda: c.interactions.get("int_1"),
        "interactions.cancel": lambda: c.interactions.cancel("int_1"),
        "live.connect": live,
    }


def recording():
    """Makes a client that notes each reply, as its bytes are once they are decoded."""

    def note(response):
        body = response.read()
        headers = [(name.lower(), value) for name, value in response.headers.items()]
        replies.append([response.status_code, headers, hashlib.sha256(body).hexdigest(), body[:300].decode("latin-1")])

    return httpx2.Client(event_hooks={"response": [note]}, timeout=20, follow_redirects=True)


BASE, replies = sys.argv[2], []
for name, call in globals()[sys.argv[1]]().items():
    replies.clear()
    print(json.dumps({"begins": name}), flush=True)
    input()
    try:
        got = call()
        got = repr(asyncio.run(got) if inspect.isawaitable(got) else got)
    except Exception as error:
        got = f"{type(error).__name__}: {error}"
    print(json.dumps({"name": name, "got": got[:2000], "replies": replies}), flush=True)
