#!/bin/sh
# From Python 3.11 on the interpreter specialises the setting of an attribute: that of a class with __slots__ becomes
# STORE_ATTR_SLOT after a few rounds. That of a field of a struct of msgspec 0.23.0, which are slots too, never does,
# because a struct has a setter of its own, and takes several times as long (20 in place of 5 ns); with gc=False too.
# Reading a field is specialised (LOAD_ATTR_SLOT) and as fast. Structs are made faster than classes, so what pays is a
# question of how often a record changes.
# Exits 0 while that is so, 1 if it changed, 2 if a package can't be installed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check msgspec==0.23.0 || exit 2
cat >"$folder/look.py" <<'PY'
import dis
import sys

import msgspec


class Slots:
    __slots__ = ("count",)

    def __init__(self, count):
        self.count = count


class Struct(msgspec.Struct):
    count: int


class Untracked(msgspec.Struct, gc=False):
    count: int


def specialised(record):
    """Return how the interpreter sets and reads the field after a thousand rounds."""
    namespace = {}
    exec("def used(record):\n for n in range(1000):\n  record.count = n\n  record.count", namespace)
    used = namespace["used"]
    used(record)
    used(record)
    names = [each.opname for each in dis.get_instructions(used, adaptive=True)]
    return next(each for each in names if "STORE_ATTR" in each), next(each for each in names if "LOAD_ATTR" in each)


found = {kind.__name__: specialised(kind(0)) for kind in (Slots, Struct, Untracked)}
print(sys.version.split()[0], found)
slots = found.pop("Slots")
wrong = slots != ("STORE_ATTR_SLOT", "LOAD_ATTR_SLOT")
raise SystemExit(wrong or any("SLOT" in sets or reads != "LOAD_ATTR_SLOT" for sets, reads in found.values()))
PY
"$folder/env/bin/python" "$folder/look.py"
