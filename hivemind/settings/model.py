"""All settings as one record, and what the parts of the program make of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from msgspec import Meta, Struct
from msgspec.structs import asdict

from hivemind.errors import UsageError
from hivemind.providers.profiles import PROFILES, ProfileName, assumed_lane
from hivemind.records import replace
from hivemind.redaction.values import credentials_of_url, longest_first
from hivemind.scheduler import config
from hivemind.scheduler.config import LaneConfig, SchedulerConfig
from hivemind.settings import sections
from hivemind.settings.origin import Origin, make_origins
from hivemind.settings.sections import AnyFile, Placeholder, Seconds, SecondsOrZero, Secret
from hivemind.settings.store_address import store_address
from hivemind.store.trust import Ignored
from hivemind.upstream.base import Timeouts

_SCHEDULER, _TIMEOUTS = SchedulerConfig(), Timeouts()
_SHORTEST_PASSWORD = 8


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that can be set. :mod:`.load` reads the sources, and :mod:`.checks` refuses what can't be; a record
    that is made directly isn't checked."""

    upstream: Annotated[tuple[str, ...], Placeholder("URL")] = ()
    """Where requests go: URL or NAME=URL, http:// or https://. May be given more than once."""
    token: Annotated[Secret | None, Placeholder("TEXT")] = None
    """Agents must show this; on any address but loopback required, with 16 characters. Better as HIVEMIND_TOKEN."""
    control_token: Annotated[Secret | None, Placeholder("TEXT")] = None
    """Who steers the proxy must show this; unset: made at every start, and noted for control rooms on this machine."""
    state_dir: Annotated[Path | None, Placeholder("FOLDER")] = None
    """Folder for that note, usage, tasks, checkpoints and journals; unset: the system's, as ~/.local/state/hivemind."""
    host: Annotated[str, Placeholder("ADDRESS")] = "127.0.0.1"
    """Address to listen on."""
    port: Annotated[int, Meta(ge=0, le=65_535)] = 8765
    """Port to listen on; 0 picks a free one."""
    allowed_hosts: Annotated[tuple[str, ...], Placeholder("NAME")] = ()
    """Further names under which requests may come (Host); addresses, localhost and what host names are taken anyway."""
    allowed_origins: Annotated[tuple[str, ...], Placeholder("ORIGIN")] = ()
    """Pages in browsers that may send requests (Origin), as https://app.example.org or vscode-webview://*."""
    profile: ProfileName | None = None
    """What to assume of the provider; unset: found by the upstream's URL and, of one at home, by asking it."""
    max_concurrency: AnyFile[Annotated[int, Meta(ge=0, le=100_000)]] | None = None
    """Most requests in flight at once; 0: no limit; unset: the profile's, which of unknown providers is no limit."""
    max_concurrency_per_upstream: AnyFile[Annotated[int, Meta(ge=0, le=100_000)]] = 0
    """Most requests in flight at once to one upstream, whatever keys they carry; 0: no limit."""
    rpm: AnyFile[Annotated[int, Meta(ge=0, le=10_000_000)]] | None = None
    """Requests a minute; 0: no limit of ours; unset: the provider's headers, before them the profile's."""
    tpm: AnyFile[Annotated[int, Meta(ge=0, le=10_000_000_000)]] | None = None
    """Tokens a minute, likewise."""
    pace: AnyFile[Annotated[str, Placeholder("PACE")]] = "front"
    """How fast a plan's long windows may be used: front (as it comes), even (as fast as time passes), or reserve=20%
    (so much of each is kept); low priority waits for it first, normal later, high and critical never."""
    via: Annotated[Secret | None, Placeholder("URL")] = None
    """Proxy to reach the upstreams through: http://, https://, socks5:// or socks5h:// URL."""
    ca_file: Annotated[Path | None, Placeholder("FILE")] = None
    """Certificates (PEM) to trust besides the system's."""
    fleet: Annotated[Secret | None, Placeholder("URL")] = None
    """Store through which proxies with the same keys share their limits: redis://, rediss://, valkey://, valkeys:// or
    unix:// URL. Better as HIVEMIND_FLEET if it holds a password."""
    otlp: Annotated[Secret | None, Placeholder("URL")] = None
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
    max_body_mb: Annotated[int, Meta(ge=1, le=4_096)] = 64
    """Largest body of a request that is scheduled, in MiB."""
    max_bodies_mb: Annotated[int, Meta(ge=1, le=1_048_576)] = 1_024
    """Request bodies in memory, queued or in flight, in MiB; beyond it requests get a 503. At least max_body_mb."""
    max_connections: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    """Most client connections; beyond it idle ones are closed, and where none is idle, new ones get a 503. 0: three
    quarters of the files that may be open."""
    max_agents: Annotated[int, Meta(ge=0, le=1_000_000)] = _SCHEDULER.max_agents
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
    ignored: Ignored | None = None
    """No setting, but what doesn't count of the file that was found, because it isn't trusted."""

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
            aimd=replace(lane.aimd, **{name: each for name, each in asdict(self.aimd).items() if each is not None}),
            circuit=config.CircuitConfig(**asdict(self.circuit)),
        )

    def scheduler_config(self) -> SchedulerConfig:
        """Return the scheduler's configuration, except that of lanes."""
        return SchedulerConfig(
            queue=config.QueueConfig(**asdict(self.queue)),
            retry=config.RetryConfig(**asdict(self.retry)),
            max_agents=self.max_agents,
            agent_idle_s=self.agent_idle_s,
            budget=config.BudgetConfig(**asdict(self.budget)),
            pace=sections.pace_of(self.pace),
            **asdict(self.features),
        )

    def route(self) -> str:
        """Return what requests, keys and the fleet's messages go through or trust besides the upstreams, without
        credentials: `via http://127.0.0.1:8080, ca_file /etc/ours.pem`; empty: nothing."""
        via = urlsplit(self.via.reveal()) if self.via is not None else None
        parts = {
            "via": via and f"{via.scheme}://{via.netloc.rpartition('@')[2]}",
            "ca_file": self.ca_file,
            "fleet": self.fleet and store_address(self.fleet.reveal()).shown,
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
        via = credentials_of_url(self.via.reveal()) if self.via else ()
        store = _passwords(self.fleet.reveal()) if self.fleet else ()
        otlp = credentials_of_url(self.otlp.reveal()) if self.otlp else ()
        return longest_first((*(each.reveal() for each in tokens if each is not None), *via, *store, *otlp))


def _passwords(url: str) -> list[str]:
    """Return a store's password in each spelling; one as short as a word would mask that in every text."""
    user = store_address(url).user or ""
    return [each for each in credentials_of_url(url) if each != user and len(each) >= _SHORTEST_PASSWORD]
