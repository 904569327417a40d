"""What the fleet calls a lane: the same on every machine, and nothing of the credential."""

from __future__ import annotations

import hashlib

import pytest

from hivemind.providers.profiles import PROFILES
from hivemind.wire.fleet_lanes import FleetLanes, machine, place_of
from hivemind.wire.identity import fleet_lane

KEY = b"sk-ant-canary-0123456789"
PROFILE = PROFILES["anthropic"]


def name(*headers: tuple[bytes, bytes], place: str = "https://api.example:443") -> str:
    return fleet_lane(headers, b"", PROFILE, place)


def test_one_credential_has_one_name_however_it_is_written() -> None:
    names = {name((b"x-api-key", KEY)), name((b"authorization", b"Bearer " + KEY)), name((b"authorization", KEY))}
    assert len(names) == 1
    (found,) = names
    assert len(found) == 32
    int(found, 16)


def test_names_differ_by_credential_and_upstream() -> None:
    other = (b"x-api-key", KEY + b"0")
    names = [
        name((b"x-api-key", KEY)),
        name(other),
        name((b"x-api-key", KEY), other),
        name(),
        name((b"x-api-key", KEY), place="https://other.example:443"),
    ]
    assert len(set(names)) == len(names)
    # Ignored by the provider, so it must not bring a lane of its own.
    assert name((b"x-api-key", KEY), (b"x-other-key", b"1")) == name((b"x-api-key", KEY))


def test_a_name_cant_be_found_without_the_credential() -> None:
    found = name((b"x-api-key", KEY))
    place = "https://api.example:443"
    for text in (KEY, place.encode(), KEY + place.encode()):
        assert not hashlib.sha256(text).hexdigest().startswith(found)


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("https://API.Example.com/v1", "https://api.example.com:443"),
        ("https://api.example.com.:443", "https://api.example.com:443"),
        ("http://10.0.0.1:8080/base", "http://10.0.0.1:8080"),
        ("http://localhost:8000", f"http://localhost:8000|{machine()}"),
        ("http://[::1]:8000", f"http://::1:8000|{machine()}"),
        ("http://127.0.0.2", f"http://127.0.0.2:80|{machine()}"),
    ],
)
def test_places(url: str, place: str) -> None:
    assert place_of(url) == place


def test_names_are_noted_once() -> None:
    lanes = FleetLanes()
    lanes.note("a:1", [(b"x-api-key", KEY)], b"", PROFILE, "https://api.example")
    lanes.note("a:1", [(b"x-api-key", b"another")], b"", PROFILE, "https://api.example")
    assert lanes.name("a:1") == name((b"x-api-key", KEY))
    assert KEY.decode() not in repr(vars(lanes))
    assert lanes.name("unknown") != lanes.name("other unknown")
