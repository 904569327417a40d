#!/bin/sh
# LlamaIndex.TS's Anthropic class (@llamaindex/anthropic 0.3.27) takes a `baseURL` among its options without a word and
# sends its requests to api.anthropic.com all the same; only ANTHROPIC_BASE_URL leads them elsewhere. Its OpenAI class
# (@llamaindex/openai 0.4.23) and Anthropic's SDK (0.58.0), which is below it, heed both. No name is resolved here, so that
# no request leaves this machine; which one was to be is printed. Wants Node 20 or later.
# Exits 0 while that is so, 1 if it changed, 2 if a package can't be installed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
(cd "$folder" && npm install --silent --no-fund --no-audit @llamaindex/anthropic@0.3.27 @llamaindex/openai@0.4.23 @llamaindex/core@0.6.23 @llamaindex/env@0.1.31 @anthropic-ai/sdk@0.58.0 >/dev/null) || exit 2
cat >"$folder/ask.mjs" <<'JS'
import dns from "node:dns";
import http from "node:http";
import SDK from "@anthropic-ai/sdk";
import { Anthropic } from "@llamaindex/anthropic";
import { OpenAI } from "@llamaindex/openai";

const lookedUp = new Set();
const reached = [];
const server = http.createServer((request, response) => {
  reached.push(request.url);
  request.resume();
  response.writeHead(400, { "content-type": "application/json" }).end('{"error": {"message": "no"}}');
});
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
dns.lookup = (name, options, answer) => {
  lookedUp.add(name);
  answer(new Error("kept here"));
};
const url = `http://127.0.0.1:${server.address().port}`;
const [kind, way] = process.argv.slice(2);
if (way === "variable") Object.assign(process.env, { ANTHROPIC_BASE_URL: url, OPENAI_BASE_URL: `${url}/v1` });
const address = (base) => (way === "option" ? { baseURL: base } : {});
const common = { apiKey: "k", maxRetries: 0, timeout: 5000 };
const messages = [{ role: "user", content: "hi" }];
const ask = {
  anthropic: () => new Anthropic({ ...common, ...address(url), model: "claude-4-sonnet" }).chat({ messages }),
  openai: () => new OpenAI({ ...common, ...address(`${url}/v1`), model: "gpt-4o" }).chat({ messages }),
  sdk: () => new SDK({ ...common, ...address(url) }).messages.create({ model: "claude-4-sonnet", max_tokens: 9, messages }),
}[kind];
await ask().catch(() => {});
console.log(kind, way, reached.length ? "reached" : `went to ${[...lookedUp]}`);
process.exit(0);
JS
cd "$folder"
for kind in anthropic openai sdk; do
  for way in option variable; do node ask.mjs "$kind" "$way"; done
done | tee seen
cat >wanted <<'TXT'
anthropic option went to api.anthropic.com
anthropic variable reached
openai option reached
openai variable reached
sdk option reached
sdk variable reached
TXT
cmp -s seen wanted
