#!/bin/sh
# Three SDKs are given the same Bedrock API key (AWS_BEARER_TOKEN_BEDROCK) and the same endpoint, http://127.0.0.1, as of a
# proxy on one's own machine. boto3 1.44.8 sends nothing: "Bearer authorization requires an HTTPS endpoint". AWS's SDK for
# JavaScript (@aws-sdk/client-bedrock-runtime 3.1164.0) begins with HTTP/2's preface, without asking whether the server
# speaks that, so one of HTTP/1.1 gets nothing it understands; with a NodeHttpHandler it sends its request. Anthropic's
# (anthropic 2.14.0) sends it at once. Wants Node 20 or later.
# Exits 0 while that is so, 1 if it changed, 2 if a package can't be installed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q boto3==1.44.8 anthropic==2.14.0 || exit 2
(cd "$folder" && npm install --silent --no-fund --no-audit @aws-sdk/client-bedrock-runtime@3.1164.0 \
    @smithy/node-http-handler@4.14.2 >/dev/null) || exit 2
cat >"$folder/ask.mjs" <<'JS'
import { BedrockRuntimeClient, ConverseCommand } from "@aws-sdk/client-bedrock-runtime";
import { NodeHttpHandler } from "@smithy/node-http-handler";

const [endpoint, handler] = process.argv.slice(2);
const requestHandler = handler === "http1" ? new NodeHttpHandler() : undefined;
const client = new BedrockRuntimeClient({ endpoint, region: "us-east-1", maxAttempts: 1, requestHandler });
await client.send(new ConverseCommand({ modelId: "m", messages: [{ role: "user", content: [{ text: "hi" }] }] }));
JS
cat >"$folder/ask.py" <<'PYTHON'
import sys

if sys.argv[2] == "boto3":
    import boto3

    client = boto3.client("bedrock-runtime", endpoint_url=sys.argv[1], region_name="us-east-1")
    client.converse(modelId="m", messages=[{"role": "user", "content": [{"text": "hi"}]}])
else:
    from anthropic import AnthropicBedrock

    client = AnthropicBedrock(base_url=sys.argv[1], api_key="ABSKx", aws_region="us-east-1", max_retries=0)
    client.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "hi"}])
PYTHON
"$folder/v/bin/python" - "$folder" <<'PYTHON'
import os
import pathlib
import socket
import subprocess
import sys
import threading

folder = pathlib.Path(sys.argv[1])
listener = socket.create_server(("127.0.0.1", 0))
first = []


def serve():
    while True:
        connection, _ = listener.accept()
        first.append(connection.recv(4096).split(b"\r\n")[0].decode("latin-1"))
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}")
        connection.close()


threading.Thread(target=serve, daemon=True).start()
url = f"http://127.0.0.1:{listener.getsockname()[1]}"
environment = {**os.environ, "AWS_BEARER_TOKEN_BEDROCK": "ABSKx", "AWS_EC2_METADATA_DISABLED": "true"}
python = [folder / "v/bin/python", folder / "ask.py", url]
node = ["node", folder / "ask.mjs", url]
sent, said = {}, {}
for name, command in {
    "boto3": [*python, "boto3"],
    "JavaScript": [*node, "default"],
    "JavaScript, NodeHttpHandler": [*node, "http1"],
    "anthropic": [*python, "anthropic"],
}.items():
    first.clear()
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, cwd=folder)
    sent[name], said[name] = first[:1], ran.stderr
    print(f"{name}: {first[:1] or 'nothing'}")
expected = (
    sent["boto3"] == [] and "requires an HTTPS endpoint" in said["boto3"]
    and sent["JavaScript"] == ["PRI * HTTP/2.0"]
    and sent["JavaScript, NodeHttpHandler"] == ["POST /model/m/converse HTTP/1.1"]
    and sent["anthropic"] == ["POST /model/m/invoke HTTP/1.1"]
)
sys.exit(0 if expected else 1)
PYTHON
