"""What steps of a recorded run were, in the terms of the scheduler."""

from __future__ import annotations

from hivemind.control.commands import command_from
from hivemind.lab.simulate.steps import Asked, Order
from hivemind.scheduler.commands import Command, SubmitTasks
from hivemind.scheduler.events import Arrived
from hivemind.scheduler.types import Request, TaskSpec, Usage


def request_of(asked: Asked) -> Request:
    """What was asked. It is made once, for however many simulations."""
    if asked.request is None:
        asked.request = _request(asked.arrived)
    return asked.request


def _request(arrived: Arrived) -> Request:
    return Request(
        agent=arrived.agent,
        lane=arrived.lane,
        model=arrived.model,
        family=arrived.family,
        size_chars=arrived.size_chars or arrived.estimated_input * 4,
        max_output_tokens=arrived.max_output_tokens,
        stream=arrived.stream,
        priority=arrived.asked,
        patience_s=arrived.patience_s,
        client=arrived.client,
        parent=arrived.parent,
        path=arrived.path,
    )


def setting_of(order: Order) -> str | None:
    """The setting that it gave another value, by the name that a change would have."""
    told = order.arguments
    names = {
        "Tune": told.get("knob"),
        "SetPriority": f"agent.{told.get('agent')}.priority",
        "SetBudget": f"agent.{told.get('agent')}.budget",
    }
    return names.get(order.name)


def command_of(order: Order) -> Command:
    """What was ordered. Raises: Rejected: nobody knows such a command, or its arguments aren't right."""
    if order.name == "SubmitTasks":
        return SubmitTasks(
            tuple(
                TaskSpec(each.task, each.priority, each.estimated_tokens, each.after, each.agent, each.batch)
                for each in order.tasks
            )
        )
    return command_from(order.name, order.arguments)


def begun(usage: Usage | None) -> Usage | None:
    """As far as it is known when an answer begins."""
    if usage is None:
        return None
    return Usage(usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens, min(1, usage.output_tokens))
