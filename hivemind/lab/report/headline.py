"""What a run came to in a few figures and sentences, each no more than its events show."""

from __future__ import annotations

from dataclasses import dataclass

from hivemind.lab.report.fold import ROWS_KEPT
from hivemind.lab.report.run import RecordedRun
from hivemind.lab.report.words import number, shortened
from hivemind.text.humanise import count, dollars, duration, plural
from hivemind.world.lines import words


@dataclass(frozen=True, slots=True)
class Fact:
    """A figure, what it is of, and what else belongs to it."""

    what: str
    value: str
    more: str = ""
    good: bool | None = None
    """It is good news, or bad."""


def facts(run: RecordedRun) -> list[Fact]:
    """The headline's."""
    figures = run.figures
    return [
        Fact(
            "agents finished",
            f"{number(figures.finished)} of {number(figures.agents)}",
            "whose last request was answered",
            None if not figures.agents else figures.finished == figures.agents,
        ),
        Fact("requests", number(figures.requests), _ends(run)),
        Fact("wall time", duration(figures.wall_s), f"at most {number(figures.busiest)} in flight at once"),
        _faults(run),
        _saved(run),
        Fact(
            "waited, half at most",
            duration(figures.together.p50_s),
            f"95 % at most {duration(figures.together.p95_s)}; {duration(figures.waited_s)} in all",
        ),
        Fact("tokens", count(figures.tokens), _wasted(run)),
        _cost(run),
    ]


def _ends(run: RecordedRun) -> str:
    figures = run.figures
    parts = [f"{number(figures.answered)} answered"]
    for value, text in (
        (figures.failed, "ended in an error"),
        (figures.refused, "refused"),
        (figures.left, "left by their clients"),
        (figures.open, "not over"),
        (sum(run.fold.turned_away.values()), "more turned away at the door"),
    ):
        if value:
            parts.append(f"{number(value)} {text}")
    return ", ".join(parts)


def _faults(run: RecordedRun) -> Fact:
    met, unseen = run.fold.faults.all, run.fold.faults.of("answered")
    if not met:
        return Fact("faults met", "0", "no attempt failed")
    if run.foreign:
        return Fact("faults met", number(met), f"{number(unseen)} of them led to an answer in the end")
    if unseen == met:
        return Fact("faults met", number(met), "no agent saw any of them" if met > 1 else "no agent saw it", True)
    return Fact("faults met", number(met), f"{number(unseen)} of them no agent saw", None)


def _saved(run: RecordedRun) -> Fact:
    saved = run.saved
    if run.foreign:
        return Fact("agents saved", "none", "this traffic didn't go through HiveMind")
    if not saved.agents:
        return Fact("agents saved", "0", "none met a fault that was made good unseen")
    used = f"that had used {plural(saved.tokens, 'token')}{_priced(run)}"
    return Fact("agents saved", number(saved.agents), used, True)


def _priced(run: RecordedRun) -> str:
    saved = run.saved
    return f" ({dollars(saved.dollars, saved.unpriced)})" if saved.dollars else ""


def _wasted(run: RecordedRun) -> str:
    wasted = run.figures.wasted_tokens
    if not wasted:
        return "none known to be wasted by failed or abandoned attempts"
    return f"{count(wasted)} of them wasted by failed or abandoned attempts"


def _cost(run: RecordedRun) -> Fact:
    figures = run.figures
    if not figures.tokens:
        return Fact("cost", dollars(0), "the provider told of no tokens")
    if not figures.dollars:
        return Fact("cost", "not known", "no price of these models is known")
    more = "by public prices"
    if figures.unpriced_tokens:
        more += f"; the price of {plural(figures.unpriced_tokens, 'token')} isn't known"
    return Fact("cost", dollars(figures.dollars), more)


def saving_title(run: RecordedRun) -> str:
    """What :func:`saving` is about."""
    return "What HiveMind would have saved" if run.began.source == "what-if" else "What HiveMind saved"


def saving(run: RecordedRun) -> list[str]:
    """What HiveMind saved, in sentences."""
    saved, faults, figures = run.saved, run.fold.faults, run.figures
    if run.foreign:
        return ["Nothing: this traffic didn't go through HiveMind, and what was tried again its clients tried again."]
    if not faults.all:
        return ["No attempt failed in this run, so there was nothing to save."]
    lines = []
    if figures.rescued:
        lines.append(
            f"{plural(figures.rescued, 'request')} failed at least once and {'was' if figures.rescued == 1 else 'were'}"
            " answered all the same, before any part of an answer had reached the agent."
        )
    if saved.agents:
        they = "It" if saved.agents == 1 else "They"
        lost = ": work that would have been lost" if saved.tokens else ""
        lines.append(
            f"{plural(saved.agents, 'agent')} met such a fault and never saw an error. An agent that doesn't try again"
            f" by itself would have ended there. {they} had used {plural(saved.tokens, 'token')}{_priced(run)} when"
            f" that would have happened last{lost}."
        )
        lines.append(
            "Many clients try a few times by themselves and might have survived some of these faults; the recording"
            " can't tell how many."
        )
    seen = faults.of("failed")
    if seen:
        lines.append(
            f"{plural(seen, 'fault')} {'was' if seen == 1 else 'were'} met by requests that an agent saw fail."
        )
    saw_error = sum(1 for agent in run.fold.agents.values() if agent.recovered and agent.saw_error)
    if saw_error:
        lines.append(
            f"{plural(saw_error, 'agent')} had faults made good and saw an error all the same, so that"
            f" {'it isn' if saw_error == 1 else 'they aren'}'t counted as saved."
        )
    return lines


# --- What each plot says -----------------------------------------------------------------------------------------


def course_message(run: RecordedRun) -> str:
    """The timeline's message."""
    lanes = list(run.fold.lanes.values())
    cuts = sum(lane.cuts.seen for lane in lanes)
    parked, opened = sum(lane.parked_s for lane in lanes), sum(lane.open_s for lane in lanes)
    parts = [f"At most {number(run.figures.busiest)} in flight at once"]
    queue = max((lane.longest_queue for lane in lanes), default=0)
    parts.append(f"at most {number(queue)} waiting" if queue else "nobody waited")
    text = " and ".join(parts) + ". "
    text += f"The concurrency level was cut {plural(cuts, 'time')}" if cuts else "The concurrency level was never cut"
    if parked:
        text += f"; the provider asked for {duration(parked)} of pauses"
    if opened:
        text += f"; the circuit wasn't closed for {duration(opened)}"
    return text + "."


def agents_message(run: RecordedRun, shown: int) -> str:
    """The message of the agents' rows."""
    figures = run.figures
    text = f"{number(figures.finished)} of {plural(figures.agents, 'agent')} had their last request answered."
    if shown < figures.agents:
        of = f" of the first {ROWS_KEPT}" if figures.agents > ROWS_KEPT else ""
        text += f" Shown are the {number(shown)}{of} that met most faults or asked most."
    joined = run.fold.rows.joined_s
    if joined:
        text += f" Spans that begin within {duration(joined)} of each other are drawn as one,"
        text += " in which each state is as thick as its share of the time."
    return text


def waits_message(run: RecordedRun) -> str:
    """The message of the waits."""
    together = run.figures.together
    if not together.requests:
        return "No request is over."
    return (
        f"Half of the requests waited at most {duration(together.p50_s)} in the queue, 95 % at most"
        f" {duration(together.p95_s)}, the longest {duration(together.longest_s)}."
        f" Waiting slowed the agents down {'alike' if run.figures.fairness >= 0.95 else 'unequally'}"
        f" (Jain's index {run.figures.fairness:.2f})."
    )


def faults_message(run: RecordedRun) -> str:
    """The message of the faults."""
    faults = run.fold.faults
    if not faults.all:
        return "No attempt failed."
    kind, most = faults.by_number()[0]
    text = f"{plural(faults.all, 'attempt')} failed"
    if len(faults.kinds) > 1:
        text += f", most often: {words(kind)} ({number(most.faults)})"
    answered = faults.of("answered")
    by_whom = "" if run.foreign else ", unseen by the agent"
    return f"{text}. {number(answered)} of {number(faults.all)} led to an answer in the end{by_whom}."


def windows_message(run: RecordedRun) -> str:
    """The message of the rate windows."""
    found = [window for lane in run.fold.lanes.values() for window in lane.windows.values()]
    if not found:
        return "No rate window was known."
    full = max(found, key=lambda window: window.fullest)
    return f"The fullest window, of {full.kind}, was {full.fullest:.0%} used at its most.".replace("%", " %")


def money_message(run: RecordedRun) -> str:
    """The message of the money."""
    figures = run.figures
    if not figures.tokens:
        return "The provider reported no tokens."
    spent = dollars(figures.dollars or 0.0, figures.unpriced_tokens) if figures.dollars else "an unknown amount"
    text = f"{count(figures.tokens)} tokens cost {spent}"
    dearest = next(iter(run.models))
    if len(run.models) > 1:
        text += f"; most went to {shortened(dearest)}"
    return text + "."
