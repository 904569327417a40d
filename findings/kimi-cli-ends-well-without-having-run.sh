#!/bin/sh
# kimi-cli 1.52.0, which `pip install kimi-cli` gives: the program `kimi` is only a line that says it is no longer
# maintained, on which it ends with exit code 0, whatever it is asked. So a script or CI job that runs
# `kimi --print -c PROMPT` unpinned is green, and nothing was done. The package still brings all its dependencies.
# Exits 0 while that is so, 1 if it changed, 2 if the package can't be installed. Needs Python 3.12 or later.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for python in python3 python3.14 python3.13 python3.12 ""; do
    [ "$python" ] || exit 2
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>"$folder/why" && break
done
"$python" -m venv "$folder/v"
"$folder/v/bin/pip" install -q kimi-cli==1.52.0 2>"$folder/pip.log" || { cat "$folder/pip.log"; exit 2; }
mkdir "$folder/home"
for arguments in "--print -c hello" "--version" "--no-such-option"; do
    HOME=$folder/home "$folder/v/bin/kimi" $arguments >"$folder/out" 2>&1 </dev/null || { echo "exit code $?"; exit 1; }
    echo "kimi $arguments: exit code 0, $(head -c 60 "$folder/out")..."
    grep -q 'no longer maintained' "$folder/out"
done
