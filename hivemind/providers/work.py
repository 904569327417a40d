"""What replies say of work that goes on after them: responses in the background, batches, jobs."""

from __future__ import annotations

import re
from functools import reduce
from operator import add

from hivemind.providers import json_fields
from hivemind.providers.base import Facts, StreamForm, WorkKind, WorkSign
from hivemind.providers.counts import usage_in, usage_of
from hivemind.providers.json_fields import Members, Shape
from hivemind.providers.taps import Reader
from hivemind.providers.tiers import BATCH
from hivemind.records import replace
from hivemind.scheduler.types import Usage

_GOES_ON = frozenset(
    [
        "queued",
        "in_progress",
        "created",
        "pending",
        "preprocessing",
        "processing",
        "validating",
        "validating_files",
        "notrunning",
        "paused",
        "running",
        "finalizing",
        "cancelling",
        "canceling",
        "cancellation_requested",
        "unspecified",
    ]
)
"""States of work that hasn't ended, of OpenAI, Azure, Anthropic, Google, Mistral and Alibaba. What `requires_action`
waits for another request, and may not keep the slot from it."""
_STATE_PREFIX = re.compile(r"(?:batch|job)_state_")
RESPONSE = Shape("id:text status:text background:flag")
"""A response, an interaction, a run of a thread, or what other servers have like them."""
_DEFERRED = Shape("request_id:text")
_COUNTS = Shape("completed:count succeeded:count")
_METADATA = Shape("state:text")
_BATCH = Shape(
    "id:text name:text status:text processing_status:text state:text model:text usage output_file_id:text"
    " error_file_id:text output_file:text error_file:text done:flag outputs job",
    metadata=_METADATA,
    request_counts=_COUNTS,
)
_IDS = ("task_id", "request_id", "name", "id")
_TASK = "id:text task_id:text request_id:text name:text status:text task_status:text state:text"
_JOB = Shape(f"{_TASK} done:flag model:text error video per_model_usage", output=Shape(_TASK))
_IN_VAIN = frozenset(["failed", "fail", "cancelled", "canceled", "expired", "rejected", "error"])
"""States of a job that came to nothing, and isn't charged."""
_FILES = ("output_file_id", "error_file_id", "output_file", "error_file")


def batch_facts(model: str, form: StreamForm = StreamForm.WHOLE) -> Facts:
    """Return what is known of a request for a batch: it costs what its results state, and may not be created twice."""
    return Facts(model, max_output_tokens=0, continues_state=True, tier=BATCH, form=form, begins="batch")


def job_facts(kind: WorkKind, model: str) -> Facts:
    """Return what is known of a request for a video or another job: no tokens, and it may not be created twice."""
    return Facts(model or kind, max_output_tokens=0, continues_state=True, form=StreamForm.ANY, begins=kind)


def goes_on(state: str) -> bool:
    """Return whether work in this state hasn't ended."""
    return _STATE_PREFIX.sub("", state.lower()) in _GOES_ON


def background_work(reply: Members, *, stated: bool = False) -> WorkSign | None:
    """Return what a reply of the shape :data:`RESPONSE` says; `stated`: its request asked for the background. Only what
    a provider or that says is in the background counts: any other reply brings all of what it used."""
    name, state = json_fields.text(reply, "id"), json_fields.text(reply, "status")
    going_on = goes_on(state)
    background = json_fields.flag(reply, "background") is True or (stated and going_on)
    return WorkSign(name, "background", going_on, sure=background) if name and state else None


def deferred_work(body: bytes) -> WorkSign | None:
    """Return what xAI's answer to a deferred chat completion says (https://docs.x.ai/docs/guides/deferred)."""
    name = json_fields.text(_DEFERRED.read(body), "request_id")
    return WorkSign(name, "background", goes_on=True, sure=True) if name else None


class BatchReader(Reader):
    """Reader of a batch as its creation, a look at it and its end state it."""

    __slots__ = ()

    def record(self, record: bytes) -> None:
        """Nothing comes in pieces."""

    def whole(self, body: bytes) -> None:
        """What it used counts apart."""

    def watch(self, body: bytes) -> None:
        outer, state = _BATCH.read(body), self.state
        batch = _BATCH.within(outer, "job") or outer  # Together's
        name = json_fields.text(batch, "id") or json_fields.text(batch, "name").rpartition("/")[2]
        if not name:
            return
        told = (json_fields.text(batch, each) for each in ("status", "processing_status", "state"))
        word = next(filter(None, told), "") or json_fields.text(_METADATA.within(batch, "metadata"), "state")
        going_on = goes_on(word) if word else json_fields.flag(batch, "done") is not True
        names = tuple(filter(None, (json_fields.text(batch, each) for each in _FILES)))
        state.work = WorkSign(name, "batch", going_on, sure=True, names=names)
        if going_on:
            return
        usage = usage_in(bytes(json_fields.raw(batch, "usage")), BATCH)
        requests = json_fields.count(_COUNTS.within(batch, "request_counts"), "completed", "succeeded")
        if usage is None or not usage.total:
            usage, requests = _inlined(batch, requests)
        if usage is not None:
            state.used = {json_fields.text(batch, "model"): replace(usage, tier=BATCH, requests=max(1, requests or 1))}
        elif (_STATE_PREFIX.sub("", word.lower()) == "failed" and not names) or requests == 0:
            state.used = {"": Usage()}


def _inlined(batch: Members, requests: int | None) -> tuple[Usage | None, int | None]:
    """Return what the results within a batch of Mistral's used, and how many they are, if all of them can be read."""
    outputs = json_fields.objects(batch, "outputs")
    used = [usage for each in outputs if (usage := usage_in(bytes(json_fields.raw(each, "response")), BATCH))]
    if not used or len(outputs) == json_fields.MOST_ITEMS:
        return None, requests
    return reduce(add, used), len(used)


class JobReader(Reader):
    """Reader of a video or another job, as its creation and a look at it state it. `name` is the id that was asked for:
    empty where the path doesn't tell it, None for the creation.

    A video's price depends on seconds and pixels, which aren't booked; tokens are, where they are stated.
    """

    __slots__ = ("_kind", "_name")

    def __init__(self, kind: WorkKind, name: str | None = None) -> None:
        super().__init__()
        self._kind = kind
        self._name = name

    def record(self, record: bytes) -> None:
        """Nothing comes in pieces."""

    def whole(self, body: bytes) -> None:
        """What it used counts apart."""

    def watch(self, body: bytes) -> None:
        job, state = _JOB.read(body), self.state
        inner = _JOB.within(job, "output") or job
        ids = (json_fields.text(each, name) for name in _IDS for each in (inner, job))
        name = self._name or next(filter(None, ids), "").rpartition("/")[2]
        if not name:
            return
        word = next(filter(None, (json_fields.text(inner, each) for each in ("status", "task_status", "state"))), "")
        done = json_fields.flag(job, "done") is True or json_fields.filled(job, "video")
        going_on = goes_on(word) if word else not done
        state.work = WorkSign(name, self._kind, going_on, sure=self._name is None)
        if going_on:
            return
        models = json_fields.anything(bytes(json_fields.raw(job, "per_model_usage")))
        for each in models if isinstance(models, list) else ():
            if isinstance(each, dict) and (usage := usage_of(each)) is not None:
                state.used = {**(state.used or {}), str(each.get("model_name") or ""): usage}
        if state.used is None and (usage := usage_in(body)) is not None:
            state.used = {json_fields.text(job, "model"): usage}
        if state.used is None and (_STATE_PREFIX.sub("", word.lower()) in _IN_VAIN or json_fields.filled(job, "error")):
            state.used = {"": Usage()}
