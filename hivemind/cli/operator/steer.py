"""`hivemind pause`, `hold`, `release`, `stop`, `cut`, `circuit`, `set`, `ack`, `note`: let requests wait, refuse or cut
them, steer circuits, change a knob or a priority, acknowledge alerts, write notes."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from hivemind.cli import changes, client
from hivemind.cli.plugin import Command
from hivemind.console import printable
from hivemind.errors import UsageError
from hivemind.scheduler.commands import Rejected, some
from hivemind.scheduler.operator.knobs import KNOBS, Knob, check_range
from hivemind.scheduler.types import Priority
from hivemind.text.humanise import did_you_mean, listed, parse_number
from hivemind.text.table import TextColumn, lines, width
from hivemind.world.alerts import RULES

_NO_LIMIT = ("none", "off")
_CIRCUITS = {
    "auto": "is automatic",
    "open": "is forced open: nothing is sent",
    "closed": "is forced closed: all is sent",
    "probe": "lets one probe through",
}
_COLUMNS = (
    TextColumn("KNOB"),
    TextColumn("UPSTREAM", cut=True),
    TextColumn("VALUE", right=True),
    TextColumn("FROM", right=True),
    TextColumn("TO", right=True),
)


def _for_agent(help: str) -> Callable[[argparse.ArgumentParser], None]:
    """Return what gives a command an agent as its argument."""

    def configure(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("agent", metavar="AGENT", help=help)
        client.add_flags(parser)

    return configure


def _pause(namespace: argparse.Namespace) -> int:
    done = "all requests wait; streams in flight go on"
    return changes.send_command(namespace, done, "PauseAdmissions", paused=True)


def _hold(namespace: argparse.Namespace) -> int:
    done = f"{namespace.agent}'s requests wait; streams in flight go on"
    return changes.send_command(namespace, done, "PauseAgent", agent=namespace.agent, paused=True)


def _stop(namespace: argparse.Namespace) -> int:
    return changes.send_command(
        namespace, f"{namespace.agent} is stopped", "StopAgent", agent=namespace.agent, stopped=True
    )


def _release(namespace: argparse.Namespace) -> int:
    proxy, agent = client.find_proxy(namespace), namespace.agent
    proxy.command("StopAgent", anywhere=True, agent=agent, stopped=False)
    return changes.send_command(namespace, f"{agent}'s requests go on", "PauseAgent", agent=agent, paused=False)


def _configure_cut(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("agent", metavar="AGENT", help="whose request hangs")
    parser.add_argument("request", metavar="REQUEST", nargs="?", type=int, help="its number [the only one in flight]")
    parser.add_argument("--retry", action="store_true", help="send it again, which the agent doesn't notice")
    client.add_flags(parser)


def _cut(namespace: argparse.Namespace) -> int:
    agent, number, retry = namespace.agent, namespace.request, namespace.retry
    which = f"{agent}'s request" + ("" if number is None else f" {number}")
    done = f"{which} is sent again" if retry else f"{which} is cut; the agent gets an error"
    return changes.send_command(namespace, done, "CutRequest", agent=agent, request=number, retry=retry)


def _configure_circuit(parser: argparse.ArgumentParser) -> None:
    modes = (
        "auto: errors open it, a good probe closes it; open: nothing is sent; closed: all is; probe: one request now"
    )
    parser.add_argument("mode", metavar="|".join(_CIRCUITS), choices=tuple(_CIRCUITS), help=modes)
    parser.add_argument("lane", metavar="LANE", nargs="?", help="as hivemind status names it [all]")
    client.add_flags(parser)


def _circuit(namespace: argparse.Namespace) -> int:
    whose = "every circuit" if namespace.lane is None else f"the circuit of {namespace.lane}"
    done = f"{whose} {_CIRCUITS[namespace.mode]}"
    return changes.send_command(namespace, done, "SetCircuit", mode=namespace.mode, lane=namespace.lane)


def _configure_set(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s [KNOB VALUE | priority AGENT PRIORITY] [flags]"
    parser.add_argument("knob", metavar="KNOB", nargs="?", help=f"{', '.join(KNOBS)}; none: show them all")
    parser.add_argument("values", metavar="VALUE", nargs="*", help="a number; none: no limit")
    parser.add_argument("--upstream", metavar="NAME", help="turn it for this upstream alone [all]")
    client.add_flags(parser)


def _set(namespace: argparse.Namespace) -> int:
    if namespace.knob is None:
        return _show(namespace)
    if namespace.knob == "priority":
        return _set_priority(namespace)
    knob = knob_named(namespace.knob)
    if len(namespace.values) != 1:
        raise UsageError(f"say one value, as in hivemind set {knob.name} {max(knob.lowest, 1):g}")
    value = knob_value(knob, namespace.values[0])
    shown = "no limit" if knob.zero_is_none and not value else f"{value:,.10g}"
    upstream = namespace.upstream
    done = f"{knob.name} is {shown} for {upstream}" if upstream else f"{knob.name} is {shown}"
    proxy = client.find_proxy(namespace)
    before = changes.knob_values(proxy, knob.name, upstream) if client.wants_json(namespace) else None
    result = proxy.command("Tune", knob=knob.name, value=value, upstream=upstream)
    return changes.print_change(namespace, proxy, result, [printable(done)], before)


def _set_priority(namespace: argparse.Namespace) -> int:
    if len(namespace.values) != 2:
        raise UsageError("say who and which, as in hivemind set priority alice high")
    agent, priority = namespace.values
    name, names = priority.lower(), [each.name.lower() for each in Priority]
    if name not in names:
        raise UsageError(f"priority {priority[:40]}: must be {listed(names)}")
    done = f"{agent} has priority {name}"
    return changes.send_command(namespace, done, "SetPriority", agent=agent, priority=name)


def knob_named(name: str) -> Knob:
    """Return the knob of that name. Raises: UsageError, which says what there is."""
    found = KNOBS.get(name.replace("-", "_"))
    if found is None:
        hint = did_you_mean(name, [*KNOBS, "priority"]) or f"; there are {', '.join(KNOBS)}, and priority"
        raise UsageError(f"{name[:40]}: no such knob{hint}")
    return found


def knob_value(knob: Knob, text: str) -> float:
    """Return the value that was typed. Raises: UsageError: the knob can't be turned to it."""
    if knob.zero_is_none and text.lower() in _NO_LIMIT:
        return 0.0
    try:
        value = parse_number(text)
        check_range(knob, value)
    except Rejected as error:
        raise UsageError(str(error)) from None
    except ValueError as error:
        raise UsageError(f"{knob.name}: {error}") from None
    return value


def _show(namespace: argparse.Namespace) -> int:
    lanes = client.find_proxy(namespace).world().snapshot.lanes
    found = {view.state.upstream: dict(view.state.knobs) for view in reversed(lanes)}
    if namespace.upstream is not None:
        if namespace.upstream not in found:
            raise UsageError(f"no upstream named {namespace.upstream!r}; known: {some(sorted(found))}")
        found = {namespace.upstream: found[namespace.upstream]}
    rows = []
    for upstream, values in sorted(found.items()):
        for knob in (KNOBS[name] for name in KNOBS if name in values):
            value = values[knob.name]
            shown = "none" if knob.zero_is_none and not value else f"{value:,.10g}"
            rows.append([knob.name, upstream, shown, f"{knob.lowest:g}", f"{knob.highest:,.10g}"])
    text = lines(_COLUMNS, rows, width()) if found else ["no knob has a value yet: no request was seen"]
    return client.print_answer(namespace, found, text)


def _configure_ack(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("about", metavar="AGENT|LANE", nargs="?", help="acknowledge the alerts about it [all]")
    parser.add_argument("--rule", choices=RULES, metavar="RULE", help=f"only those of a rule: {', '.join(RULES)}")
    client.add_flags(parser)


def _ack(namespace: argparse.Namespace) -> int:
    which = "all alerts" if namespace.about is None else f"the alerts about {namespace.about}"
    rule = f" ({namespace.rule})" if namespace.rule else ""
    done = f"{which}{rule} are acknowledged"
    return changes.send_command(namespace, done, "Acknowledge", about=namespace.about, rule=namespace.rule)


def _configure_note(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", metavar="TEXT", nargs="+", help="it stands at this moment on the curve and in the log")
    client.add_flags(parser)


pause = Command(client.add_flags, _pause)
hold = Command(_for_agent("its requests wait in the queue; streams in flight go on"), _hold)
release = Command(_for_agent("its requests are sent again, though it was held or stopped"), _release)
stop = Command(_for_agent("what it has in flight ends, what comes is refused"), _stop)
cut = Command(_configure_cut, _cut)
circuit = Command(_configure_circuit, _circuit)
ack = Command(_configure_ack, _ack)
note = Command(_configure_note, lambda args: changes.send_command(args, "noted", "AddNote", text=" ".join(args.text)))
set_command = Command(_configure_set, _set)
