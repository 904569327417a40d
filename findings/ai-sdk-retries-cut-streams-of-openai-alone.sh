#!/bin/sh
# Vercel's AI SDK (ai 7.0.173): what `maxRetries` of streamText covers depends on the provider's package. A stream that is
# cut off after its first event and before any content is asked for again, unseen, by @ai-sdk/openai 4.0.118, in both of
# OpenAI's APIs. @ai-sdk/openai-compatible 3.0.92, given the very same bytes, and @ai-sdk/anthropic 4.0.105 end with an
# error after one request. All of them retry a 503. Wants Node 22; 20 does too.
# Exits 0 while that is so, 1 if it changed, 2 if a package can't be installed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
(cd "$folder" && npm install --silent --no-fund --no-audit ai@7.0.173 @ai-sdk/openai@4.0.118 \
    @ai-sdk/openai-compatible@3.0.92 @ai-sdk/anthropic@4.0.105 >/dev/null) || exit 2
cat >"$folder/ask.mjs" <<'JS'
import http from "node:http";
import { streamText } from "ai";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";

const part = (delta, finish_reason = null) =>
  ({ id: "c", object: "chat.completion.chunk", created: 1, model: "m", choices: [{ index: 0, delta, finish_reason }] });
const response = { id: "r", created_at: 1, model: "m", output: [], usage: { input_tokens: 1, output_tokens: 1 } };
const usage = { input_tokens: 1, output_tokens: 1 };
const events = {
  "/v1/chat/completions": [part({ role: "assistant", content: "" }), part({ content: "hi" }), part({}, "stop")],
  "/v1/responses": [
    { type: "response.created", response },
    { type: "response.output_item.added", output_index: 0, item: { type: "message", id: "i" } },
    { type: "response.output_text.delta", item_id: "i", delta: "hi" },
    { type: "response.output_item.done", output_index: 0, item: { type: "message", id: "i" } },
    { type: "response.completed", response },
  ],
  "/v1/messages": [
    { type: "message_start", message: { id: "m", type: "message", role: "assistant", model: "m", content: [], usage } },
    { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
    { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "hi" } },
    { type: "content_block_stop", index: 0 },
    { type: "message_delta", delta: { stop_reason: "end_turn" }, usage },
    { type: "message_stop" },
  ],
};
let asked, fault;
const server = http.createServer((request, reply) => {
  request.resume().on("end", () => {
    asked += 1;
    const blocks = events[request.url].map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
    if (asked > 1) return reply.writeHead(200, { "content-type": "text/event-stream" }).end(blocks.join(""));
    if (fault === "503") return reply.writeHead(503, { "content-type": "application/json" }).end('{"error":{"message":"busy"}}');
    reply.writeHead(200, { "content-type": "text/event-stream" }).write(blocks[0], () => setTimeout(() => reply.destroy(), 100));
  });
});
await new Promise((done) => server.listen(0, "127.0.0.1", done));
const options = { name: "x", apiKey: "k", baseURL: `http://127.0.0.1:${server.address().port}/v1` };
const openai = createOpenAI(options);
const models = {
  "openai, responses": openai("m"),
  "openai, chat": openai.chat("m"),
  "openai-compatible": createOpenAICompatible(options)("m"),
  anthropic: createAnthropic(options)("m"),
};
const found = [];
globalThis.AI_SDK_LOG_WARNINGS = false;
for (fault of ["cut", "503"])
  for (const [name, model] of Object.entries(models)) {
    asked = 0;
    let error = "no error";
    const result = streamText({ model, prompt: "hello", maxRetries: 2, onError: (event) => (error = event.error.name) });
    let text = "";
    Promise.resolve(result.finishReason).catch(() => {});
    try {
      for await (const piece of result.textStream) text += piece;
    } catch (thrown) {
      error = thrown.name;
    }
    console.log(fault, "|", name, "| requests:", asked, "| text:", text, "|", error);
    found.push(`${asked}${text}`);
  }
process.exit(found.join(" ") === "2hi 2hi 1 1 2hi 2hi 2hi 2hi" ? 0 : 1);
JS
cd "$folder" && node ask.mjs
