#!/bin/sh
# Codex 0.171.0 with its feature local_thread_store_compression (under development, off by default): at its start it
# replaces rollouts that weren't written to for long with FILE.jsonl.zst, so what looks for *.jsonl finds only recent ones.
# Exits 0 while that is so, 1 if it changed, 2 if the package can't be installed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm install --silent --no-fund --prefix "$folder/n" @openai/codex@0.171.0 >/dev/null || exit 2
old="$folder/home/sessions/2026/08/01/rollout-2026-08-01T12-30-21-01a22748-f023-7621-9282-dec43f103352.jsonl"
mkdir -p "$(dirname "$old")" "$folder/work"
cat > "$old" <<'LINES'
{"timestamp":"2026-08-01T12:30:21.000Z","ordinal":0,"type":"session_meta","payload":{"session_id":"01a22748-f023-7621-9282-dec43f103352","id":"01a22748-f023-7621-9282-dec43f103352","timestamp":"2026-08-01T12:30:21.000Z","cwd":"/tmp","originator":"codex_exec","cli_version":"0.171.0","source":"exec","model_provider":"openai"}}
LINES
touch -d 2026-08-01 "$old"
cd "$folder/work"
# Nothing listens there: it gives up after its retries, and the rollouts are packed meanwhile.
CODEX_HOME="$folder/home" OPENAI_API_KEY=sk-0000 CODEX_API_KEY=sk-0000 RUST_LOG=info timeout 60 \
    "$folder/n/node_modules/.bin/codex" exec --skip-git-repo-check --enable local_thread_store_compression \
    -c 'openai_base_url="http://127.0.0.1:9/v1"' "Go." > "$folder/log" 2>&1 </dev/null || true
grep -a -o "compression worker finished: .*" "$folder/log" | head -1 || true
ls "$(dirname "$old")"
[ -f "$old.zst" ] && [ ! -f "$old" ]
