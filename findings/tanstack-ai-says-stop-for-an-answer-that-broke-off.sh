#!/bin/sh
# @tanstack/ai 0.58.0: a stream that ends in the middle of its answer, as a proxy or load balancer ends one whose upstream
# is gone, is no error, and with `stream: false` the half answer is returned (it asks for a stream there, too). The adapters
# of @tanstack/ai-openai 0.23.1 even report `RUN_FINISHED` with `finishReason: "stop"`, which nobody said: the Responses API
# sent no `response.completed`, chat completions no `finish_reason` and no `[DONE]`. Needs Node 20 or later.
# Exits 0 while that is so, 1 if it changed, 2 if the packages can't be installed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{"type": "module"}' >package.json
npm install --silent --ignore-scripts @tanstack/ai@0.58.0 @tanstack/ai-openai@0.23.1 >npm.log 2>&1 || { cat npm.log; exit 2; }
cat >ask.mjs <<'JAVASCRIPT'
import http from 'node:http'
import { chat } from '@tanstack/ai'
import { createOpenaiChat, createOpenaiChatCompletions } from '@tanstack/ai-openai'

const chunk = (content) => ({
  id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm',
  choices: [{ index: 0, delta: { role: 'assistant', content }, finish_reason: null }],
})
const response = { id: 'r', object: 'response', created_at: 1, status: 'in_progress', model: 'm', output: [] }
const item = { type: 'message', id: 'i', status: 'in_progress', role: 'assistant', content: [] }
const delta = (delta) => ({ type: 'response.output_text.delta', item_id: 'i', output_index: 0, content_index: 0, delta })
const begun = [{ type: 'response.created', response }, { type: 'response.output_item.added', output_index: 0, item }]
const server = http.createServer((request, reply) => {
  request.resume()
  reply.writeHead(200, { 'content-type': 'text/event-stream' })
  const events = request.url.endsWith('/responses') ? [...begun, delta('Never'), delta(' do')] : [chunk('Never'), chunk(' do')]
  for (const each of events) reply.write(`${each.type ? `event: ${each.type}\n` : ''}data: ${JSON.stringify(each)}\n\n`)
  reply.end()
})
await new Promise((done) => server.listen(0, '127.0.0.1', done))
const options = { baseURL: `http://127.0.0.1:${server.address().port}/v1` }
let same = true
for (const make of [createOpenaiChat, createOpenaiChatCompletions]) {
  const question = { adapter: make('gpt-5', 'k', options), messages: [{ role: 'user', content: 'Hello!' }] }
  let last
  for await (const each of chat(question)) last = each
  const reason = last.metadata?.tanstack?.finishReason
  const text = await chat({ ...question, stream: false })
  console.log(`${make.name}: ${last.type} ${reason}; without a stream: ${JSON.stringify(text)}`)
  same &&= last.type === 'RUN_FINISHED' && reason === 'stop' && text === 'Never do'
}
process.exit(same ? 0 : 1)
JAVASCRIPT
node ask.mjs
