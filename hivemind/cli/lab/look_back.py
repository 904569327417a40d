"""`hivemind look-back`: what the clients on this machine recorded by themselves, and what HiveMind would have changed.

Files are only read, nothing leaves the machine, and no text of theirs is kept.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
from collections import Counter
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path

from hivemind.cli.address import add_folder_flags
from hivemind.cli.journals import state_folder
from hivemind.cli.plugin import Command
from hivemind.cli.progress import Progress
from hivemind.console import print_json, printable
from hivemind.errors import UsageError
from hivemind.journal.importers import FORMATS, codex
from hivemind.journal.importers.looking_back import LookBack, PlanSeen, look_back
from hivemind.journal.importers.making import journal_of, key_of
from hivemind.journal.importers.sources import FOLDER, HTTP, Found, Shelf, find_sources, tales_of
from hivemind.journal.importers.told import stated_dollars, without_copies
from hivemind.prices import prices_at
from hivemind.providers.published import Published, published
from hivemind.store.atomic import output_file
from hivemind.text.humanise import count, dollars, duration, percent, plural
from hivemind.text.table import width, wrapped

_DAYS = 7.0
_INSTALL = "pip install 'hivemind-tui[lab]'"
_NAMES = {"claude-code": "Claude Code", "codex": "Codex"}


def _configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    sources = f"files, folders and patterns [those of Claude Code and Codex in your home]: {FORMATS}"
    add("source", metavar="SOURCE", nargs="*", help=sources)
    add("--days", metavar="N", help="without SOURCE: of sessions of the last N days [7]")
    add("--provider", metavar="NAME", help="simulate the limits of this provider")
    add("--tier", metavar="TIER", help="as they are published for this tier, such as 4")
    add("--json", action="store_true", help="print JSON")
    add_folder_flags(parser)


def _run(namespace: argparse.Namespace) -> int:
    days, tier = _days(namespace), published(namespace.provider, namespace.tier)
    found = find_sources(namespace.source or _homes())
    if not namespace.source:
        since = time.time() - days * 86_400
        found.sources = [each for each in found.sources if each.path.stat().st_mtime >= since]
        if not found.sources:
            raise UsageError(f"no session of the last {days:g} days is on this machine; --days looks further back")
    if any(each.kind in HTTP for each in found.sources):
        raise UsageError("look-back reads what clients and gateways log; of HAR and mitmproxy: journal stats SOURCE")
    state = state_folder(namespace)
    with Progress() as progress:
        tales = tales_of(found, Shelf(state), Counter(), progress.reading)
        told = list(without_copies(tales))
        if not told:
            raise UsageError("no request of a model is in these files")
        seen = look_back(told, prices_at(max(each.at for each in told)))
        seen.stated_dollars = stated_dollars(tales)
        progress.tell("simulating...")
        # Beside logs that hold refusals, those that don't (Codex) would leave nothing to say.
        telling = [each for each in found.sources if each.kind != codex.NAME] or found.sources
        only = "" if len(telling) == len(found.sources) else "(of all but Codex) "
        key = f"{key_of(Found(telling), None)}-{namespace.tier or ''}"
        if foretold := _foretold([str(each.path) for each in telling], state, key, tier):
            foretold = f"{only}{foretold}"
    if namespace.json:
        return print_json(
            {**vars(seen), "plan": {name: vars(each) for name, each in seen.plan.items()}, "foretold": foretold or None}
        )
    room = width() or 100
    for line in _lines(seen, foretold):
        print("\n".join(wrapped(printable(line), room)))
    return _offer(namespace)


def _days(namespace: argparse.Namespace) -> float:
    try:
        days = float(namespace.days or _DAYS)
    except ValueError:
        days = 0.0
    if not 0 < days <= 36_500:
        raise UsageError(f"--days: must be a number above 0, not {namespace.days[:40]!r}")
    return days


def _homes() -> list[str]:
    """Return where clients keep their sessions (code.claude.com "Settings", Codex' config.md)."""
    home = Path.home()
    places = (
        *(Path(each).expanduser() / "projects" for each in os.environ.get("CLAUDE_CONFIG_DIR", "").split(",") if each),
        home / ".claude" / "projects",
        home / ".config" / "claude" / "projects",
        Path(os.environ.get("CODEX_HOME") or home / ".codex").expanduser() / "sessions",
    )
    there = [str(each) for each in dict.fromkeys(places) if each.is_dir()]
    if not there:
        raise UsageError(
            "no sessions of Claude Code or Codex are on this machine (~/.claude/projects, ~/.codex/sessions); name"
            " other recordings"
        )
    return there


def _foretold(paths: list[str], state: Path, key: str, tier: tuple[Published, ...]) -> str:
    """What HiveMind would have changed; it is kept, because it takes a minute to compute. Empty: the extra `lab` isn't
    installed."""
    kept = state / FOLDER / f"{key}.json"
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        return str(json.loads(kept.read_text("utf-8"))["sentence"])
    if find_spec("numpy") is None:
        return ""
    from hivemind.lab.foresight.answer import answer, foretell
    from hivemind.lab.simulate.recording import load

    price = prices_at()
    recording = load((journal_of(paths, state).path,), price, tier=tier)
    if recording.unsaid:
        sentence = f"What it would have changed can't be said: {recording.unsaid}."
    else:
        found = answer(recording, foretell(recording, (), price))
        sentence = f"{found.sentence} {found.checked}"
    with output_file(kept, str(kept)) as file:
        file.write(json.dumps({"sentence": sentence}).encode())
    return sentence


def _lines(seen: LookBack, foretold: str) -> list[str]:
    sessions = " and ".join(f"{plural(n, 'session')} of {_NAMES.get(name, name)}" for name, n in seen.sources.items())
    retries = sum(seen.failed.values())
    refused = ", ".join(f"{name}: {n:,}" for name, n in seen.failed.most_common())
    lost = ", ".join(
        f"{duration(s)} to {_cause(name)}"
        for name, s in sorted(seen.lost_s.items(), key=lambda each: -each[1])
        if s >= 0.05
    )
    blind = f" (without {count(seen.unpriced_tokens)} tokens whose price isn't known)" if seen.unpriced_tokens else ""
    unmetered = f"; of {plural(seen.unmetered, 'answer')} no tokens are recorded" if seen.unmetered else ""
    own = seen.stated_dollars
    stated = "" if own is None else f"; Claude Code itself counted {dollars(own)}"
    hidden = " (Codex doesn't record refusals)" if "codex" in seen.sources else ""
    return [
        f"{sessions}, {_day(seen.began)} to {_day(seen.ended)}",
        f"requests          {seen.requests:,} of {plural(seen.agents, 'agent')}, {seen.agents_at_once:,} at once",
        f"failed attempts   {retries:,}{f' ({refused})' if refused else ''}{hidden}",
        f"time lost         {lost or 'none to failed attempts'}",
        f"errors            {plural(seen.unanswered, 'request')} ended in one",
        f"tokens            {count(seen.tokens)}{unmetered}",
        f"dollars           {dollars(seen.dollars)} by public prices{blind}{stated}",
        f"cache expiry      {dollars(seen.expired_dollars)} for {plural(seen.expired, 'prompt')} written again after it"
        " had expired",
        *([f"plan              {'; '.join(map(_window, seen.plan.items()))}"] if seen.plan else []),
        f"with HiveMind     {foretold or f'{_INSTALL} computes what it would have changed'}",
    ]


def _window(of: tuple[str, PlanSeen]) -> str:
    name, seen = of
    if seen.used_up:
        return f"your {name} window was used up {plural(seen.used_up, 'time')}"
    return f"of your {name} window {percent(seen.most)} at most"


def _day(wall: float) -> str:
    return datetime.fromtimestamp(wall).strftime("%Y-%m-%d %H:%M")


def _cause(name: str) -> str:
    return {"unknown": "attempts that failed in a way that isn't recorded", "no answer": "resets"}.get(name, f"{name}s")


def _offer(namespace: argparse.Namespace) -> int:
    command = ["hivemind-tui", "--replay", *(namespace.source[:1] or [_homes()[0]])]
    print(f"to look at it     {' '.join(command)}")
    if find_spec("hivemind_tui") is None or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return 0
    if input("open it in the control room? [y/N] ").strip().lower() not in ("y", "yes"):
        return 0
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-P", "-m", "hivemind_tui", *command[1:]])


command = Command(_configure, _run)
