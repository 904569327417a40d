"""The one model of every setting, and what the parts of the program make of it."""

from __future__ import annotations

import ipaddress
import json
import re
import ssl
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, PrivateAttr, SecretStr, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from hivemind.errors import UsageError
from hivemind.providers.profiles import PROFILES, ProfileName, assumed_lane
from hivemind.records import replace
from hivemind.redaction.values import credentials_of_url, longest_first
from hivemind.scheduler import config
from hivemind.scheduler.config import LaneConfig, SchedulerConfig
from hivemind.settings import sections
from hivemind.settings.hosts import checked_host, checked_origin
from hivemind.settings.origin import Origin, make_origins, split_upstream
from hivemind.settings.sections import AnyFile, Seconds, SecondsOrZero
from hivemind.settings.store_address import store_address
from hivemind.store.trust import Ignored
from hivemind.upstream.base import Timeouts

_SCHEDULER, _TIMEOUTS = SchedulerConfig(), Timeouts()
_LISTED = {"allowed_hosts": "names", "allowed_origins": "origins"}
_TOKEN_LENGTH, _TOKEN_LETTERS = 16, 6
"""What a token on an address that others reach must have at least; 16 random hexadecimal digits have 64 bits."""
_SHORTEST_PASSWORD = 8
_MASKED_URL = "http://127.0.0.1:8080"


class Settings(BaseSettings):
    """Everything that can be set. Built from its arguments alone; :func:`hivemind.settings.load` reads the sources."""

    model_config = SettingsConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True, validate_default=True
    )

    upstream: Annotated[tuple[str, ...], Field(json_schema_extra={"metavar": "URL"})] = ()
    """Where requests go: URL or NAME=URL, http:// or https://. May be given more than once."""
    token: Annotated[SecretStr | None, Field(json_schema_extra={"metavar": "TEXT"})] = None
    """Agents must show this; on any address but loopback required, with 16 characters. Better as HIVEMIND_TOKEN."""
    control_token: Annotated[SecretStr | None, Field(json_schema_extra={"metavar": "TEXT"})] = None
    """Who steers the proxy must show this; unset: made at every start, and noted for control rooms on this machine."""
    state_dir: Annotated[Path | None, Field(json_schema_extra={"metavar": "FOLDER"})] = None
    """Folder for that note, usage, tasks, checkpoints and journals; unset: the system's, as ~/.local/state/hivemind."""
    host: Annotated[str, Field(json_schema_extra={"metavar": "ADDRESS"})] = "127.0.0.1"
    """Address to listen on."""
    port: Annotated[int, Field(ge=0, le=65_535)] = 8765
    """Port to listen on; 0 picks a free one."""
    allowed_hosts: Annotated[tuple[str, ...], Field(json_schema_extra={"metavar": "NAME"})] = ()
    """Further names under which requests may come (Host); addresses, localhost and what host names are taken anyway."""
    allowed_origins: Annotated[tuple[str, ...], Field(json_schema_extra={"metavar": "ORIGIN"})] = ()
    """Pages in browsers that may send requests (Origin), as https://app.example.org or vscode-webview://*."""
    profile: ProfileName | None = None
    """What to assume of the provider; unset: found by the upstream's URL and, of one at home, by asking it."""
    max_concurrency: AnyFile[Annotated[int, Field(ge=0, le=100_000)]] | None = None
    """Most requests in flight at once; 0: no limit; unset: the profile's, which of unknown providers is no limit."""
    max_concurrency_per_upstream: AnyFile[Annotated[int, Field(ge=0, le=100_000)]] = 0
    """Most requests in flight at once to one upstream, whatever keys they carry; 0: no limit."""
    rpm: AnyFile[Annotated[int, Field(ge=0, le=10_000_000)]] | None = None
    """Requests a minute; 0: no limit of ours; unset: the provider's headers, before them the profile's."""
    tpm: AnyFile[Annotated[int, Field(ge=0, le=10_000_000_000)]] | None = None
    """Tokens a minute, likewise."""
    pace: AnyFile[Annotated[str, Field(json_schema_extra={"metavar": "PACE"})]] = "front"
    """How fast a plan's long windows may be used: front (as it comes), even (as fast as time passes), or reserve=20%
    (so much of each is kept); low priority waits for it first, normal later, high and critical never."""
    via: Annotated[SecretStr | None, Field(json_schema_extra={"metavar": "URL"})] = None
    """Proxy to reach the upstreams through: http://, https://, socks5:// or socks5h:// URL."""
    ca_file: Annotated[Path | None, Field(json_schema_extra={"metavar": "FILE"})] = None
    """Certificates (PEM) to trust besides the system's."""
    fleet: Annotated[SecretStr | None, Field(json_schema_extra={"metavar": "URL"})] = None
    """Store through which proxies with the same keys share their limits: redis://, rediss://, valkey://, valkeys:// or
    unix:// URL. Better as HIVEMIND_FLEET if it holds a password."""
    otlp: Annotated[SecretStr | None, Field(json_schema_extra={"metavar": "URL"})] = None
    """OpenTelemetry receiver that gets a span of each request, and metrics, as http://127.0.0.1:4318 (OTLP/HTTP)."""
    connect_timeout_s: Seconds = _TIMEOUTS.connect_s or 0
    """Longest wait for a connection to an upstream, TLS included."""
    headers_timeout_s: SecondsOrZero = _TIMEOUTS.headers_s or 0
    """Longest wait for an upstream's response head; 0: no limit. A server at home is waited for longer."""
    idle_timeout_s: SecondsOrZero = _TIMEOUTS.idle_s or 0
    """Longest silence inside an upstream's response; 0: no limit."""
    keepalive_after_s: Seconds = 10.0
    """A stream that waits longer than this is begun with a 200, and kept alive."""
    keepalive_every_s: Seconds = 10.0
    """Between two signs of life in such a stream."""
    stream_usage: bool = False
    """Ask OpenAI-style chat streams for their usage (stream_options) where the client doesn't, and keep it from the
    client."""
    drain_s: AnyFile[SecondsOrZero] = 30.0
    """On SIGINT or SIGTERM, how long streams in flight may go on."""
    idle_exit_s: SecondsOrZero | None = None
    """End after so long without requests, agents' processes and clients of the control API; 0: never; unset: 300 for a
    proxy that a run started, else never."""
    max_body_mb: Annotated[int, Field(ge=1, le=4_096)] = 64
    """Largest body of a request that is scheduled, in MiB."""
    max_bodies_mb: Annotated[int, Field(ge=1, le=1_048_576)] = 1_024
    """Request bodies in memory, queued or in flight, in MiB; beyond it requests get a 503. At least max_body_mb."""
    max_connections: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """Most client connections; beyond it idle ones are closed, and where none is idle, new ones get a 503. 0: three
    quarters of the files that may be open."""
    max_agents: Annotated[int, Field(ge=0, le=1_000_000)] = _SCHEDULER.max_agents
    """Most live agents; 0: no limit."""
    agent_idle_s: AnyFile[Seconds] = _SCHEDULER.agent_idle_s
    """An agent that asked for nothing in this time isn't live."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least serious thing worth a line on standard error."""
    aimd: sections.AimdSettings = sections.AimdSettings()
    circuit: sections.CircuitSettings = sections.CircuitSettings()
    retry: sections.RetrySettings = sections.RetrySettings()
    queue: sections.QueueSettings = sections.QueueSettings()
    budget: sections.BudgetSettings = sections.BudgetSettings()
    checkpoint: sections.CheckpointSettings = sections.CheckpointSettings()
    journal: sections.JournalSettings = sections.JournalSettings()
    mcp: sections.McpSettings = sections.McpSettings()
    agents: sections.AgentSettings = sections.AgentSettings()
    alerts: sections.AlertSettings = sections.AlertSettings()
    features: sections.FeatureSettings = sections.FeatureSettings()
    _ignored: Ignored | None = PrivateAttr(default=None)

    @property
    def ignored(self) -> Ignored | None:
        """Return what doesn't count of the file that was found, because it isn't trusted; None: all of it counts."""
        return self._ignored

    def without(self, ignored: Ignored) -> Settings:
        """Return the same settings with a note of what doesn't count of the file that was found."""
        made = self.model_copy()
        made._ignored = ignored
        return made

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take arguments only, so that settings made in code don't depend on the environment of the process."""
        return (init_settings,)

    @field_validator("upstream", "allowed_hosts", "allowed_origins", mode="before")
    @classmethod
    def _split_list(cls, value: Any, info: ValidationInfo) -> Any:
        """Split a variable's string: a JSON list, or parts separated by commas or spaces."""
        if not isinstance(value, str):
            return value
        if value.lstrip().startswith('["') or (value.lstrip().startswith("[") and info.field_name == "upstream"):
            try:
                return json.loads(value)
            except json.JSONDecodeError:
                kind = _LISTED.get(info.field_name or "", "URLs")
                raise ValueError(f"must be {kind} separated by commas or spaces, or a JSON list of them") from None
        return [part for part in re.split(r"[,\s]+", value) if part]

    @field_validator("upstream")
    @classmethod
    def _check_upstreams(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for number, text in enumerate(value, 1):
            try:
                split_upstream(text)
            except ValueError as error:
                raise ValueError(f"number {number} of {len(value)} {error}" if len(value) > 1 else str(error)) from None
        make_origins(value, None)
        return tuple(text.strip() for text in value)

    @field_validator("allowed_hosts")
    @classmethod
    def _check_hosts(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(checked_host, value))

    @field_validator("allowed_origins")
    @classmethod
    def _check_origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(checked_origin, value))

    @field_validator("token", "control_token")
    @classmethod
    def _check_token(cls, value: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        text = "x" if value is None else value.get_secret_value()
        if not text or not text.isascii() or not text.isprintable() or " " in text:
            raise ValueError("must be printable ASCII without spaces, at least one character")
        if value is not None and value == info.data.get("token"):
            raise ValueError("must differ from token, which every agent knows")
        return value

    @field_validator("host")
    @classmethod
    def _check_host(cls, value: str, info: ValidationInfo) -> str:
        host = value.removeprefix("[").removesuffix("]")
        if not host or not host.isascii() or not host.isprintable() or re.search(r"[\s/@?#]", host):
            raise ValueError("must be an IP address or a host name")
        if not _is_loopback(host) and info.data.get("token") is None and "token" in info.data:
            raise ValueError(
                f"{host} isn't a loopback address, so agents need a token: set HIVEMIND_TOKEN (or --token),"
                " or use 127.0.0.1"
            )
        for name in () if _is_loopback(host) else ("token", "control_token"):
            given = info.data.get(name)
            if given is not None and not _is_strong(given.get_secret_value()):
                raise ValueError(
                    f"{host} isn't a loopback address, and {name} can be guessed: it must be at least {_TOKEN_LENGTH}"
                    f" characters, {_TOKEN_LETTERS} of them different; make one with openssl rand -hex 16"
                )
        return host

    @field_validator("pace")
    @classmethod
    def _check_pace(cls, value: str) -> str:
        sections.pace_of(value)
        return value

    @field_validator("via")
    @classmethod
    def _check_via(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not _is_proxy_url(value.get_secret_value()):
            raise ValueError(
                "must be a proxy's URL with a host: http://, https://, socks5:// or socks5h://, as in " + _MASKED_URL
            )
        return value

    @field_validator("fleet")
    @classmethod
    def _check_fleet(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            store_address(value.get_secret_value())
        return value

    @field_validator("otlp")
    @classmethod
    def _check_otlp(cls, value: SecretStr | None) -> SecretStr | None:
        return sections.http_url(value)

    @field_validator("ca_file")
    @classmethod
    def _check_ca_file(cls, value: Path | None) -> Path | None:
        if value is not None:
            try:
                ssl.create_default_context(cafile=value)
            except OSError as error:
                reason = "no certificate in PEM form is in it" if isinstance(error, ssl.SSLError) else error.strerror
                raise ValueError(f"must be a file of certificates in PEM form ({reason})") from None
        return value

    @field_validator("agents")
    @classmethod
    def _check_credentials(cls, value: sections.AgentSettings, info: ValidationInfo) -> sections.AgentSettings:
        for name, token in value.credentials.items():
            for other in ("token", "control_token"):
                if token == info.data.get(other):
                    raise ValueError(f"the token of {name} must differ from {other}")
        return value

    def check_upstream(self) -> None:
        """Check that an upstream isn't missing only because the file that was found isn't trusted: a key that is meant
        for the file's upstream mustn't go to another.

        Raises: UsageError: the text names the command that trusts the file.
        """
        if not self.upstream and self.ignored is not None and self.ignored.upstream:
            raise UsageError(self.ignored.refusal)

    def origins(self) -> tuple[Origin, ...]:
        """Return the upstreams in the order given. Raises: UsageError: there is none."""
        self.check_upstream()
        if not self.upstream:
            raise UsageError(
                "no upstream: say where requests go, as in --upstream https://api.anthropic.com"
                " (or HIVEMIND_UPSTREAM, or upstream in hivemind.toml)"
            )
        return make_origins(self.upstream, PROFILES[self.profile] if self.profile else None)

    def lane_config(self, origin: Origin) -> LaneConfig:
        """Return the configuration of a lane to this upstream: its profile, overridden by settings."""
        lane = assumed_lane(origin.name, origin.profile)
        return replace(
            lane,
            max_concurrency=lane.max_concurrency if self.max_concurrency is None else self.max_concurrency,
            begin_at=lane.begin_at if self.max_concurrency is None else 0,
            max_concurrency_per_upstream=self.max_concurrency_per_upstream,
            rpm=lane.rpm if self.rpm is None else self.rpm,
            tpm=lane.tpm if self.tpm is None else self.tpm,
            rpm_binding=bool(self.rpm),
            tpm_binding=bool(self.tpm),
            aimd=replace(lane.aimd, **self.aimd.model_dump(exclude_none=True)),
            circuit=config.CircuitConfig(**self.circuit.model_dump()),
        )

    def scheduler_config(self) -> SchedulerConfig:
        """Return the scheduler's configuration, except that of lanes."""
        return SchedulerConfig(
            queue=config.QueueConfig(**self.queue.model_dump()),
            retry=config.RetryConfig(**self.retry.model_dump()),
            max_agents=self.max_agents,
            agent_idle_s=self.agent_idle_s,
            budget=config.BudgetConfig(**self.budget.model_dump()),
            pace=sections.pace_of(self.pace),
            **self.features.model_dump(),
        )

    def route(self) -> str:
        """Return what requests, keys and the fleet's messages go through or trust besides the upstreams, without
        credentials: `via http://127.0.0.1:8080, ca_file /etc/ours.pem`; empty: nothing."""
        via = urlsplit(self.via.get_secret_value()) if self.via is not None else None
        parts = {
            "via": via and f"{via.scheme}://{via.netloc.rpartition('@')[2]}",
            "ca_file": self.ca_file,
            "fleet": self.fleet and store_address(self.fleet.get_secret_value()).shown,
        }
        return ", ".join(f"{name} {value}" for name, value in parts.items() if value is not None)

    def timeouts(self) -> Timeouts:
        """Return the upstream's timeouts; a setting of 0 means no limit."""
        return Timeouts(self.connect_timeout_s, self.headers_timeout_s or None, self.idle_timeout_s or None)

    def own_credentials(self) -> tuple[str, ...]:
        """Return the proxy's own tokens, its credentials for the outbound proxy, the fleet's store and the OTLP
        receiver, the longest first; no output may show them."""
        webhook = self.alerts.webhook, self.alerts.webhook_secret
        tokens = (self.token, self.control_token, *self.agents.credentials.values(), *webhook)
        via = credentials_of_url(self.via.get_secret_value()) if self.via else ()
        store = _passwords(self.fleet.get_secret_value()) if self.fleet else ()
        otlp = credentials_of_url(self.otlp.get_secret_value()) if self.otlp else ()
        return longest_first((*(each.get_secret_value() for each in tokens if each is not None), *via, *store, *otlp))


def _passwords(url: str) -> list[str]:
    """Return a store's password in each spelling; one as short as a word would mask that in every text."""
    user = store_address(url).user or ""
    return [each for each in credentials_of_url(url) if each != user and len(each) >= _SHORTEST_PASSWORD]


def _is_strong(token: str) -> bool:
    """Return whether a token is too long to guess by trying; a weak password of that length isn't recognised."""
    return len(token) >= _TOKEN_LENGTH and len(set(token)) >= _TOKEN_LETTERS


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _is_proxy_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in {"http", "https", "socks5", "socks5h"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
