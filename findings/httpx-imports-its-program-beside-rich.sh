#!/bin/sh
# Where rich, pygments and click are installed, as by Textual and uvicorn, "import httpx" imports them too: httpx 0.28.1
# tries to import its own command line program, which nobody has asked for, and does without only where one of them is
# missing. That is about half of the time that the import takes, in each program that uses httpx. Where "httpx._main"
# can't be imported, httpx works as well.
# Exits 0 while that is so, 1 if it changed, 2 if a package can't be installed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/alone"
python3 -m venv "$folder/beside"
"$folder/alone/bin/pip" install --quiet --disable-pip-version-check httpx==0.28.1 httpcore==1.0.9 || exit 2
"$folder/beside/bin/pip" install --quiet --disable-pip-version-check \
  httpx==0.28.1 httpcore==1.0.9 rich==15.0.0 pygments==2.21.0 click==8.5.1 || exit 2
cat >"$folder/look.py" <<'PY'
import sys

if sys.argv[1:] == ["without"]:
    sys.modules["httpx._main"] = None
import httpx

found = [sum(each.partition(".")[0] == name for each in sys.modules) for name in ("rich", "pygments", "click")]
response = httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(200, text="ok"))).get("http://a.example")
print(*found, response.text)
PY
alone=$("$folder/alone/bin/python" "$folder/look.py")
beside=$("$folder/beside/bin/python" "$folder/look.py")
without=$("$folder/beside/bin/python" "$folder/look.py" without)
echo "modules of rich, pygments and click after import httpx, alone: $alone"
echo "where these are installed: $beside"
echo "the same without httpx._main: $without"
[ "$alone" = "0 0 0 ok" ] && [ "$without" = "0 0 0 ok" ] || exit 1
echo "$beside" | awk '{ exit !($1 > 20 && $2 > 5 && $3 > 5 && $4 == "ok") }'
