"""OpenAI's Responses API, also on Azure's paths (platform.openai.com: Responses, Streaming events)."""

from __future__ import annotations

from collections.abc import Sequence

from hivemind_mock.provider.formats import openai
from hivemind_mock.provider.formats.base import Ask, Body, Headers, Problem, Reply, count_tokens, positive
from hivemind_mock.provider.formats.sse import event
from hivemind_mock.provider.limits import Reading


class OpenAIResponses:
    """`/v1/responses`."""

    name = "openai_responses"
    stream_type = b"text/event-stream; charset=utf-8"

    def ask(self, path: str, query: str, body: Body) -> Ask | None:
        operation, variant, _ = openai.operation(path)
        if operation != "/responses":
            return None
        return Ask(
            model=str(body.get("model", "")),
            stream=body.get("stream") is True,
            input_tokens=count_tokens(body.get("instructions"), body.get("input"), body.get("tools")),
            max_tokens=positive(body.get("max_output_tokens")),
            variant=variant,
        )

    def whole(self, ask: Ask, reply: Reply) -> Body:
        return self._response(ask, reply, "incomplete" if reply.cut else "completed")

    def opening(self, ask: Ask, reply: Reply) -> bytes:
        begun = self._response(ask, reply, "in_progress")
        return self._event(reply, 0, "response.created", response=begun) + self._event(
            reply, 1, "response.in_progress", response=begun
        )

    def piece(self, ask: Ask, reply: Reply, index: int) -> bytes:
        delta = {"delta": reply.pieces[index], "logprobs": []}
        data = self._event(reply, 4 + index, "response.output_text.delta", **self._at(reply), **delta)
        if index:
            return data
        item = {**self._item(reply, "in_progress"), "content": []}
        return (
            self._event(reply, 2, "response.output_item.added", output_index=0, item=item)
            + self._event(reply, 3, "response.content_part.added", **self._at(reply), part=self._part(""))
            + data
        )

    def closing(self, ask: Ask, reply: Reply) -> bytes:
        number = 4 + len(reply.pieces)
        done = self.whole(ask, reply)
        item = self._item(reply, "incomplete" if reply.cut else "completed")
        text = {"text": reply.text, "logprobs": []}
        return (
            self._event(reply, number, "response.output_text.done", **self._at(reply), **text)
            + self._event(
                reply, number + 1, "response.content_part.done", **self._at(reply), part=self._part(reply.text)
            )
            + self._event(reply, number + 2, "response.output_item.done", output_index=0, item=item)
            + self._event(reply, number + 3, f"response.{done['status']}", response=done)
        )

    def problem(self, problem: Problem) -> tuple[int, Headers, Body]:
        return openai.problem(problem)

    def stream_problem(self, ask: Ask, problem: Problem, sent: int) -> bytes:
        error = openai.error(problem)
        code = error["code"] or error["type"]
        data = {
            "type": "error",
            "code": code,
            "message": problem.message,
            "param": None,
            "sequence_number": sent + (4 if sent else 2),
        }
        return event("error", data)

    def headers(self, ask: Ask | None, ident: str, readings: Sequence[Reading], wall: float) -> Headers:
        return openai.headers(ask, ident, readings)

    def _event(self, reply: Reply, number: int, kind: str, **fields: object) -> bytes:
        return event(kind, {"type": kind, "sequence_number": number, **fields})

    def _at(self, reply: Reply) -> dict[str, object]:
        return {"item_id": "msg_" + reply.ident, "output_index": 0, "content_index": 0}

    def _part(self, text: str) -> Body:
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}

    def _item(self, reply: Reply, status: str) -> Body:
        part = self._part(reply.text)
        return {"id": "msg_" + reply.ident, "type": "message", "status": status, "role": "assistant", "content": [part]}

    def _response(self, ask: Ask, reply: Reply, status: str) -> Body:
        begun = status == "in_progress"
        return {
            "id": "resp_" + reply.ident,
            "object": "response",
            "created_at": reply.created,
            "status": status,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
            "instructions": None,
            "max_output_tokens": ask.max_tokens or None,
            "model": ask.model,
            "output": [] if begun else [self._item(reply, status)],
            "parallel_tool_calls": True,
            "previous_response_id": None,
            "store": False,
            "temperature": 1.0,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [],
            "top_p": 1.0,
            "truncation": "disabled",
            "usage": None if begun else self._usage(ask, reply),
            "metadata": {},
        }

    def _usage(self, ask: Ask, reply: Reply) -> Body:
        return {
            "input_tokens": ask.input_tokens,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": reply.output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": ask.input_tokens + reply.output_tokens,
        }
