#!/bin/sh
# msgspec.convert 0.23.0 is documented to raise ValidationError where a value isn't of the wanted type. A text that holds
# bytes which aren't UTF-8, as Python hands over arguments and variables of the environment (lone surrogates, PEP 383),
# is returned as it is where a text is wanted; where a number, a switch, a choice or a record is, UnicodeEncodeError
# comes out instead, which isn't a msgspec.MsgspecError.
# Exits 0 while that is so, 1 if it changed, 2 if a package can't be installed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check msgspec==0.23.0 || exit 2
cat >"$folder/look.py" <<'PY'
import os
from typing import Literal

import msgspec


class Settings(msgspec.Struct):
    port: int = 0


def outcome(value, kind):
    try:
        return ascii(msgspec.convert(value, kind))
    except Exception as error:
        return f"{type(error).__name__}, a MsgspecError: {isinstance(error, msgspec.MsgspecError)}"


text = os.fsdecode(b"80\xff")
found = {
    "a text": outcome(text, str),
    "a number": outcome(text, int),
    "a choice": outcome(text, Literal["on", "off"]),
    "a record": outcome({"port": text}, Settings),
    "another text as a number": outcome("80x", int),
}
for name, said in found.items():
    print(f"{name}: {said}")
raise SystemExit(
    list(found.values())
    != ["'80\\udcff'", *["UnicodeEncodeError, a MsgspecError: False"] * 3, "ValidationError, a MsgspecError: True"]
)
PY
"$folder/env/bin/python" "$folder/look.py"
