from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import asdict
from rich.pretty import pretty_repr
from trustme import CA

from hivemind.errors import UsageError
from hivemind.providers.profiles import PROFILES
from hivemind.records import names_of, replace
from hivemind.scheduler.config import CircuitConfig, QueueConfig, RetryConfig, SchedulerConfig
from hivemind.settings import Settings
from hivemind.settings.checks import checked
from hivemind.settings.options import options
from hivemind.settings.sections import (
    AimdSettings,
    BadSetting,
    CircuitSettings,
    FeatureSettings,
    QueueSettings,
    RetrySettings,
    Secret,
)
from hivemind.upstream.base import Timeouts


def settings(**values: Any) -> Settings:
    return checked({"upstream": ("http://127.0.0.1:9",), **values})


def reason(**values: Any) -> str:
    with pytest.raises(BadSetting) as caught:
        checked(values)
    return f"{'.'.join(caught.value.path)}: {caught.value.why}"


def test_defaults_are_the_schedulers() -> None:
    """Nothing set gives exactly the scheduler's and the upstream client's own defaults."""
    assert settings().scheduler_config() == SchedulerConfig()
    assert settings().timeouts() == Timeouts()


@pytest.mark.parametrize(
    ("section", "config"),
    [
        (AimdSettings, PROFILES["generic"].aimd.__class__),
        (CircuitSettings, CircuitConfig),
        (RetrySettings, RetryConfig),
        (QueueSettings, QueueConfig),
    ],
)
def test_sections_cover_the_scheduler(section: Any, config: Any) -> None:
    """Everything the scheduler can be told to be can be set, but for a few constants, and nothing else."""
    constants = {"budget_reserve", "budget_rate_per_s", "stagger_s", "max_passes", "update_interval_s"}
    constants |= {"window"} if section is AimdSettings else set()
    assert set(names_of(section) or ()) == set(names_of(config) or ()) - constants


def test_scheduler_config() -> None:
    """What is set reaches the scheduler."""
    found = settings(
        queue=QueueSettings(max_depth=7),
        retry=RetrySettings(max_attempts=1),
        features=FeatureSettings(backpressure=False),
        max_agents=3,
        agent_idle_s=5.0,
    ).scheduler_config()
    assert found == replace(
        SchedulerConfig(),
        queue=replace(QueueConfig(), max_depth=7),
        retry=replace(RetryConfig(), max_attempts=1),
        backpressure=False,
        max_agents=3,
        agent_idle_s=5.0,
    )


def test_lane_config_is_the_profiles() -> None:
    """Where nothing is set, a lane is what its provider's profile says."""
    found = settings(upstream=("https://api.openai.com",))
    (origin,) = found.origins()
    profile = PROFILES["openai"]
    lane = found.lane_config(origin)
    assert (lane.upstream, lane.provider) == ("openai", "openai")
    assert (lane.rpm, lane.tpm, lane.max_concurrency) == (profile.rpm, profile.tpm, profile.max_concurrency)
    assert (lane.rpm_binding, lane.tpm_binding) == (False, False)
    assert (lane.reserve_max_tokens, lane.count_cache_reads) == (profile.reserve_max_tokens, profile.count_cache_reads)
    assert (lane.aimd, lane.circuit) == (profile.aimd, CircuitConfig())


def test_settings_override_the_profile() -> None:
    """What is set wins over the profile, value by value, and a limit that was set binds."""
    found = settings(max_concurrency=3, rpm=7, aimd=AimdSettings(beta=0.9), circuit=CircuitSettings(when_open="refuse"))
    (origin,) = found.origins()
    lane = found.lane_config(origin)
    assert (lane.max_concurrency, lane.rpm, lane.rpm_binding) == (3, 7, True)
    assert (lane.tpm, lane.tpm_binding) == (origin.profile.tpm, False)
    assert lane.aimd == replace(origin.profile.aimd, beta=0.9)
    assert lane.circuit.when_open == "refuse"


def test_zero_lifts_our_limits_only() -> None:
    """0 takes away a limit of ours and doesn't bind, so the provider's headers still hold."""
    found = settings(max_concurrency=0, rpm=0, tpm=0)
    lane = found.lane_config(found.origins()[0])
    assert (lane.max_concurrency, lane.rpm, lane.tpm) == (0, 0, 0)
    assert (lane.rpm_binding, lane.tpm_binding) == (False, False)


def test_timeouts() -> None:
    """A timeout of 0 waits for ever."""
    found = settings(connect_timeout_s=1.0, headers_timeout_s=0.0, idle_timeout_s=2.0).timeouts()
    assert found == Timeouts(1.0, None, 2.0)


def test_profile_for_all_upstreams() -> None:
    """A profile that is named holds for every upstream, whatever its URL."""
    found = settings(upstream=("https://api.openai.com", "http://x"), profile="ollama").origins()
    assert [origin.profile.name for origin in found] == ["ollama", "ollama"]
    assert [origin.name for origin in found] == ["ollama", "ollama-2"]


def test_no_upstream() -> None:
    """A proxy without an upstream is told what to write."""
    with pytest.raises(UsageError, match="--upstream https://api"):
        Settings().origins()


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost", "LOCALHOST"])
def test_loopback_needs_no_token(host: str) -> None:
    """Every way to write loopback is accepted as it is."""
    assert settings(host=host).host == host.strip("[]")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org", "127.0.0.1.example.org"])
def test_elsewhere_needs_a_token(host: str) -> None:
    """An address that others can reach is refused unless agents have to show a token."""
    assert f"{host} isn't a loopback address" in reason(host=host)
    assert settings(host=host, token=Secret("3b1f0c9a7d52e846")).host == host


@pytest.mark.parametrize("weak", ["x", "3b1f0c9a7d52e84", "a" * 40, "ababababababababab"])
def test_a_token_elsewhere_is_no_guess(weak: str) -> None:
    """Where others can try, neither token may be short or of one letter; the line says how to make one, and doesn't
    repeat it. On loopback any will do."""
    strong = Secret("3b1f0c9a7d52e846")
    for given in ({"token": Secret(weak)}, {"token": strong, "control_token": Secret(weak)}):
        said = reason(host="0.0.0.0", **given)
        assert f"{list(given)[-1]} can be guessed" in said
        assert "openssl rand -hex 16" in said
        assert len(weak) < 3 or weak not in said
        assert settings(host="127.0.0.1", **given).host == "127.0.0.1"


@pytest.mark.parametrize("host", ["", "a b", "http://x", "x/y", "a\n"])
def test_host_that_is_none(host: str) -> None:
    """What can't be an address is refused as such, token or no token."""
    assert "an IP address or a host name" in reason(host=host, token=Secret("x"))


@pytest.mark.parametrize("via", ["http://127.0.0.1:8080", "https://p", "socks5://u:p@h:1080", "socks5h://h"])
def test_via(via: str) -> None:
    """HTTP and SOCKS proxies are accepted, and what stands in the URL isn't shown by accident."""
    found = settings(via=Secret(via))
    assert found.via is not None
    assert found.via.reveal() == via
    assert via not in repr(found)


@pytest.mark.parametrize("via", ["127.0.0.1:8080", "socks4://h", "http://", "http://h:99999", "http://[", ""])
def test_wrong_via(via: str) -> None:
    """Anything else is refused with an example."""
    assert "as in http://127.0.0.1:8080" in reason(via=Secret(via))


def test_ca_file(tmp_path: Path) -> None:
    """The file is read at once, so that a wrong one is told before the first request."""
    good, bad = tmp_path / "ca.pem", tmp_path / "bad.pem"
    CA().cert_pem.write_to_path(str(good))
    bad.write_text("no certificate")
    assert settings(ca_file=good).ca_file == good
    assert "(no certificate in PEM form is in it)" in reason(ca_file=bad)
    assert "(No such file or directory)" in reason(ca_file=tmp_path / "none.pem")


def test_retry_delays_in_order() -> None:
    """The longest retry delay can't be shorter than the first."""
    assert "at least retry.base_s, which is 60" in reason(retry={"base_s": 60})


def test_wrong_upstream_of_several() -> None:
    """With several upstreams the line says which."""
    assert "number 2 of 2 must" in reason(upstream=("http://a", "x"))
    assert "two upstreams" in reason(upstream=("a=http://a", "a=http://b"))


def test_frozen_and_closed() -> None:
    """Settings can't be changed, and a misspelt one can't be made."""
    with pytest.raises(AttributeError):
        settings().port = 1  # type: ignore[misc]
    assert reason(prot=1) == "prot: None"


def test_every_setting_is_documented() -> None:
    """Each has a sentence for --help, and each number a range."""
    for option in options():
        assert option.help.endswith("."), option.key
        if option.kind in (int, float):
            assert option.bounds is not None, option.key


def test_control_token_is_another() -> None:
    """Who may use the proxy may not for that steer it; and both are plain text that a header can hold."""
    assert "must differ from token" in reason(token=Secret("x"), control_token=Secret("x"))
    assert "printable ASCII" in reason(control_token=Secret("two words"))
    assert settings(token=Secret("x"), control_token=Secret("y")).control_token == Secret("y")


def test_credentials_are_masked() -> None:
    """Neither printing nor copying settings shows an agent's token, and no encoder takes it."""
    found = settings(agents={"credentials": {"alice": "sekrit"}})
    assert "sekrit" not in f"{found!r} {found} {asdict(found)}"
    with pytest.raises(TypeError):
        msgspec.json.encode(found)


def test_secrets_are_masked() -> None:
    """Neither printing settings nor looking at them as Rich does shows the token."""
    found = settings(token=Secret("sekrit"))
    assert "sekrit" not in repr(found) + pretty_repr(found)
