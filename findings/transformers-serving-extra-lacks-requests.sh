#!/bin/sh
# transformers 5.19.0, from PyPI: the extra `serving` doesn't bring `requests`, and huggingface_hub needs it no more, but
# every subcommand imports it (cli/chat.py), so that `transformers serve` ends with a traceback as pip installs it.
# Seen 2026-11-29: ModuleNotFoundError: No module named 'requests'; with `pip install requests` it goes on.
# Exits with 0 while this is so, 1 if it changed, 2 if it can't be installed. Needs python3 with venv; torch isn't reached.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q transformers==5.19.0 rich 2>"$folder/pip.log" || { cat "$folder/pip.log"; exit 2; }
! grep -i 'requests.*extra == .serving' "$folder"/venv/lib/python3*/site-packages/transformers-5.19.0.dist-info/METADATA
"$folder/venv/bin/transformers" serve --help >"$folder/before" 2>&1 && { echo "it starts"; exit 1; }
tail -n 1 "$folder/before"
grep -q "No module named 'requests'" "$folder/before"
