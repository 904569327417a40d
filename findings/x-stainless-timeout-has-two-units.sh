#!/bin/sh
# token.js 0.7.1, its newest, depends on openai 4.91.1 for JavaScript, which states its timeout of ten minutes as
# `x-stainless-timeout: 600000`, in milliseconds. openai 4.104.0 and anthropic's SDK (@anthropic-ai/sdk 1.14.0) state the
# same ten minutes as 600, and OpenAI's 7.59.0 states none. So a server that waits for as long as its client says it does
# takes token.js to wait for a week. Wants Node 20 or later.
# Exits 0 while that is so, 1 if it changed, 2 if a package can't be installed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
(cd "$folder" && npm install --silent --no-fund --no-audit token.js@0.7.1 old@npm:openai@4.104.0 new@npm:openai@7.59.0 \
    @anthropic-ai/sdk@1.14.0 >/dev/null) || exit 2
cat >"$folder/ask.mjs" <<'JS'
import http from "node:http";
import Anthropic from "@anthropic-ai/sdk";
import Later from "new";
import Early from "old";
import { TokenJS } from "token.js";

const seen = [];
const server = http.createServer((request, response) => {
  seen.push([request.headers["user-agent"], request.headers["x-stainless-timeout"]]);
  request.resume().on("end", () => response.writeHead(400, { "content-type": "application/json" }).end("{}"));
});
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
const base = `http://127.0.0.1:${server.address().port}`;
const openai = { apiKey: "k", baseURL: `${base}/v1` };
const question = { model: "gpt-4o", messages: [{ role: "user", content: "hi" }] };
const calls = [
  () => new TokenJS(openai).chat.completions.create({ ...question, provider: "openai" }),
  () => new Early(openai).chat.completions.create(question),
  () => new Later(openai).chat.completions.create(question),
  () => new Anthropic({ apiKey: "k", baseURL: base }).messages.create({ ...question, max_tokens: 9 }),
];
for (const call of calls) await call().catch(() => {});
console.log(seen);
const expected = [
  ["OpenAI/JS 4.91.1", "600000"],
  ["OpenAI/JS 4.104.0", "600"],
  ["OpenAI/JS 7.59.0", undefined],
  ["Anthropic/JS 1.14.0", "600"],
];
process.exit(JSON.stringify(seen) === JSON.stringify(expected) ? 0 : 1);
JS
cd "$folder"
node ask.mjs
