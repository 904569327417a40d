"""The headline figures of a run, what HiveMind saved, and the message of each plot."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from hivemind.journal.wait_causes import WAITED_FOR, shares_text
from hivemind.lab.report.lanes import WindowSummary
from hivemind.lab.report.run import RecordedRun
from hivemind.lab.report.theme import shortened
from hivemind.text.humanise import count, dollars, duration, exit_text, plural, share
from hivemind.world.lines import words

_NAMED = 3
"""Dead agents whose names are told."""
_UNEQUAL = 0.95
"""Jain's index below which agents were slowed down unequally."""

_FULL = 0.95
"""The used share of a window that has kept requests waiting."""


_OF = {"wall time": "wall_s", "failed attempts": "retries", "p50 wait": "waits", "tokens": "tokens", "cost": "dollars"}
"""The figure that a fact tells."""


class Fact(Struct, frozen=True):
    """A headline figure."""

    what: str
    value: str
    more: str = ""
    good: bool | None = None
    """Whether it is good or bad news; None: neither."""


def facts(run: RecordedRun) -> list[Fact]:
    """Return the headline figures."""
    figures = run.figures
    wasted = count(figures.wasted_tokens) if figures.wasted_tokens else "none known to be"
    of_them = " of them" if figures.wasted_tokens else ""
    found = [
        Fact(
            "agents finished",
            f"{run.finished:,} of {figures.agents:,}",
            "whose last request was answered" + (", and which didn't die" if run.died else ""),
            run.finished == figures.agents if figures.agents else None,
        ),
        *([Fact("agents that died", f"{len(run.died):,}", _dead_agents(run), False)] if run.died else []),
        Fact("requests", f"{figures.requests:,}", _ends(run)),
        Fact("wall time", duration(figures.wall_s), f"at most {figures.busiest:,} in flight at once"),
        _faults(run),
        _saved(run),
        _waits(run),
        Fact("tokens", count(figures.tokens), f"{wasted}{of_them} wasted by failed or abandoned attempts"),
        _cost(run),
        *_caches(run),
    ]
    unknown = run.began.unknown_figures
    return [Fact(each.what, "not recorded") if _OF.get(each.what) in unknown else each for each in found]


def _dead_agents(run: RecordedRun) -> str:
    names = [f"{shortened(agent.name)} ({exit_text(agent.exit_code or 0)})" for agent in run.died[:_NAMED]]
    more = len(run.died) - _NAMED
    return ", ".join([*names, *([f"{more:,} more"] if more > 0 else [])])


def _waits(run: RecordedRun) -> Fact:
    figures, waits = run.figures, run.figures.together
    largest = figures.causes.largest
    mostly = "mostly " if len(figures.causes.seconds) > 1 else ""
    text = f"p95 {duration(waits.p95_s)}; {duration(figures.waited_s)} in all"
    return Fact("p50 wait", duration(waits.p50_s), f"{text}, {mostly}{WAITED_FOR[largest]}" if largest else text)


def _ends(run: RecordedRun) -> str:
    figures = run.figures
    ends = (
        (figures.failed, "ended in an error"),
        (figures.refused, "refused"),
        (figures.left, "left by their clients"),
        (figures.open, "not over"),
        (sum(run.fold.turned_away.values()), "more refused on arrival"),
    )
    return ", ".join([f"{figures.answered:,} answered", *(f"{value:,} {text}" for value, text in ends if value)])


def _faults(run: RecordedRun) -> Fact:
    failed, answered = run.fold.faults.count, run.fold.faults.ended("answered")
    of_them = f"{answered:,} of them"
    if not failed:
        return Fact("failed attempts", "0")
    if run.began.foreign:
        return Fact("failed attempts", f"{failed:,}", f"{of_them} led to an answer in the end")
    text = f"{'all' if answered == failed else of_them} retried OK, unseen by the agent"
    return Fact("failed attempts", f"{failed:,}", text, answered == failed or None)


def _saved(run: RecordedRun) -> Fact:
    if run.began.foreign:
        return Fact("agents recovered", "none", "this traffic didn't go through HiveMind")
    if not run.saved:
        return Fact("agents recovered", "0", "no failed attempt was retried OK before its agent saw an error")
    return Fact("agents recovered", f"{len(run.saved):,}", f"that had used {_saved_tokens(run)}", True)


def _saved_tokens(run: RecordedRun) -> str:
    spent = run.saved_spending
    cost = f" ({dollars(spent.dollars, spent.unpriced)})" if spent.dollars else ""
    return f"{plural(spent.tokens, 'token')}{cost}"


def _cost(run: RecordedRun) -> Fact:
    figures = run.figures
    if not figures.tokens:
        return Fact("cost", dollars(0), "the provider reported no tokens")
    if not figures.dollars:
        return Fact("cost", "not known", "no price of these models is known")
    more = "by public prices"
    if figures.unpriced_tokens:
        more += f"; the price of {plural(figures.unpriced_tokens, 'token')} isn't known"
    return Fact("cost", dollars(figures.dollars), more)


def _caches(run: RecordedRun) -> list[Fact]:
    agents = run.fold.agents.values()
    whys = "order", "waited", "thought", "switched"
    saved, waited, thought, switched = (sum([each.caches[why] for each in agents]) for why in whys)
    if not (saved or waited or thought or switched):
        return []
    more = f"{dollars(waited)} for prompts that expired while they waited, {dollars(thought)} before they came"
    more += f", {dollars(switched)} for switches of model or upstream" if switched else ""
    return [Fact("saved by order", dollars(saved), more)]


def saving_title(run: RecordedRun) -> str:
    """Return the title above :func:`saving`."""
    return "What HiveMind would have saved" if run.began.source == "what-if" else "What HiveMind saved"


def saving(run: RecordedRun) -> list[str]:
    """Return in sentences what HiveMind saved."""
    faults, recovered, saved = run.fold.faults, run.figures.retried_ok, len(run.saved)
    if run.began.foreign:
        return ["Nothing: this traffic didn't go through HiveMind, and any retries were its clients' own."]
    if not faults.count:
        return ["No attempt failed in this run, so there was nothing to save."]
    lines = []
    if recovered:
        lines.append(
            f"{plural(recovered, 'request')} failed at least once and {'was' if recovered == 1 else 'were'} retried OK,"
            " before any part of an answer had reached the agent."
        )
    if saved:
        had = "It" if saved == 1 else "They"
        lines.append(
            f"{plural(saved, 'agent')} had such a request before seeing any error. Without retries, an agent ends"
            f" at its first error. {had} had used {_saved_tokens(run)} by the last failed attempt, which would have"
            " been lost."
        )
        lines.append(
            "Many clients retry a few times by themselves and might have survived some of these errors; the recording"
            " can't tell how many."
        )
    if seen := faults.ended("failed"):
        lines.append(f"{plural(seen, 'failed attempt')} belonged to requests that ended in an error.")
    saw_error = sum(1 for agent in run.fold.agents.values() if agent.recovered and not agent.saved)
    if saw_error:
        lines.append(
            f"{plural(saw_error, 'agent')} saw an error before any request was retried OK, and"
            f" {'isn' if saw_error == 1 else 'aren'}'t counted as recovered."
        )
    return lines


# --- Messages of plots -------------------------------------------------------------------------------------------


def course_message(run: RecordedRun) -> str:
    """Describe the plot of the whole run."""
    lanes = list(run.fold.lanes.values())
    cuts = sum(lane.cuts.seen for lane in lanes)
    paused_s, open_s = sum(lane.paused_s for lane in lanes), sum(lane.open_s for lane in lanes)
    queue = max((lane.longest_queue for lane in lanes), default=0)
    text = f"At most {run.figures.busiest:,} in flight at once and at most {queue:,} queued."
    text += f" The concurrency level was cut {plural(cuts, 'time')}" if cuts else " The concurrency level was never cut"
    if paused_s:
        text += f"; rate-limited for {duration(paused_s)}"
    if open_s:
        text += f"; the circuit wasn't closed for {duration(open_s)}"
    return text + "."


def causes_message(run: RecordedRun) -> str:
    """Say why requests waited."""
    figures = run.figures
    if not figures.causes.seconds:
        return "No request waited."
    return f"Requests waited {duration(figures.waited_s)} in all: {shares_text(figures.causes)}."


def waits_message(run: RecordedRun) -> str:
    """Describe the plot of the waits."""
    waits, fairness = run.figures.together, run.figures.fairness
    if not waits.requests:
        return "No request is over."
    return (
        f"Requests waited for at most {duration(waits.p50_s)} (p50) and {duration(waits.p95_s)} (p95), the longest"
        f" for {duration(waits.longest_s)}. Waiting slowed the agents down"
        f" {'unequally' if fairness < _UNEQUAL else 'alike'} (Jain's index {fairness:.2f})."
    )


def faults_message(run: RecordedRun) -> str:
    """Describe the plot of the failed attempts."""
    faults = run.fold.faults
    if not faults.count:
        return "No attempt failed."
    kind, most = faults.most_frequent()[0]
    often = f", most often: {words(kind)} ({most.count:,})" if len(faults.kinds) > 1 else ""
    unseen = "" if run.began.foreign else ", unseen by the agent"
    answered = f"{faults.ended('answered'):,} of {faults.count:,} led to an answer in the end{unseen}"
    return f"{plural(faults.count, 'attempt')} failed{often}. {answered}."


def windows_message(run: RecordedRun) -> str:
    """Describe the plot of the rate windows, of which there is at least one."""
    found = [window for _, window in run.windows()]
    parts = []
    if told := [window for window in found if window.told]:
        parts.append(f"By the provider's headers at most {_fullest(told)} was used.")
    if own := [window for window in found if not window.told]:
        parts.append(
            f"By HiveMind's own sums over 60 s (dotted) at most {_fullest(own)} was used; no header tells of it."
        )
    if any(window.source in ("assumed", "profile") and window.fullest >= _FULL for window in found):
        parts.append("The limit of a full window is assumed, as no header and no setting states it: see rpm and tpm.")
    return " ".join(parts)


def _fullest(windows: Iterable[WindowSummary]) -> str:
    fullest = max(windows, key=lambda window: window.fullest)
    return f"{share(fullest.fullest)} of the {fullest.kind.value} window"


def money_message(run: RecordedRun) -> str:
    """Describe the plot of the money, where there are tokens."""
    figures = run.figures
    spent = dollars(figures.dollars, figures.unpriced_tokens) if figures.dollars else "an unknown amount"
    most = f"; most went to {shortened(next(iter(run.models)))}" if len(run.models) > 1 else ""
    return f"{count(figures.tokens)} tokens cost {spent}{most}."
