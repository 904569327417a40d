#!/bin/sh
# @ax-llm/ax 24.0.21 takes an error in a stream of OpenAI's chat API (`data: {"error": {...}}` after a 200, as vLLM,
# OpenRouter and others send it) for a chunk, and ends with "TypeError: Cannot read properties of undefined (reading
# 'map')": neither the provider's words nor that it may be asked again can be told. The same error as a status, a 503, it
# asks again after. OpenAI's SDK (openai 7.59.0) raises an APIError with the words. Wants Node 20 or later.
# Exits 0 while that is so, 1 if it changed, 2 if a package can't be installed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
(cd "$folder" && npm install --silent --no-fund --no-audit @ax-llm/ax@24.0.21 openai@7.59.0 >/dev/null) || exit 2
cat >"$folder/ask.mjs" <<'JS'
import http from "node:http";
import { ai } from "@ax-llm/ax";
import OpenAI from "openai";

const failure = { error: { message: "The engine is overloaded.", type: "server_error", code: null } };
const chunk = { id: "c", object: "chat.completion.chunk", created: 1, model: "gpt-5.4" };
const content = { ...chunk, choices: [{ index: 0, delta: { role: "assistant", content: "hi" }, finish_reason: "stop" }] };
let asked = 0;
let status = 200;
const server = http.createServer((request, response) => {
  request.resume().on("end", () => {
    asked += 1;
    if (status !== 200 && asked === 1) {
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(failure));
      return;
    }
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.end(`data: ${JSON.stringify(status === 200 ? failure : content)}\n\ndata: [DONE]\n\n`);
  });
});
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
const base = `http://127.0.0.1:${server.address().port}/v1`;

async function told(stream) {
  asked = 0;
  try {
    for await (const _ of await stream());
    return "an answer";
  } catch (error) {
    return `${error.constructor.name}: ${error.message}`;
  }
}

const prompt = [{ role: "user", content: "hi" }];
const model = "gpt-5.4";
const ax = () => ai({ name: "openai", apiKey: "k", apiURL: base, config: { model } }).chat({ chatPrompt: prompt }, { stream: true });
const sdk = () =>
  new OpenAI({ apiKey: "k", baseURL: base, maxRetries: 0 }).chat.completions.create({ model, messages: prompt, stream: true });
const byEvent = await told(ax);
const below = await told(sdk);
status = 503;
const byStatus = `${await told(ax)} after ${asked} requests`;
console.log({ byEvent, below, byStatus });
const hidden = byEvent.startsWith("TypeError") && !byEvent.includes("overloaded") && below.includes("overloaded");
process.exit(hidden && byStatus === "an answer after 2 requests" ? 0 : 1);
JS
cd "$folder"
node ask.mjs
