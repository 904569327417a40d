"""The pure state machine: told what happened and when, it answers with what may be done."""

from hivemind.scheduler.scheduler import Scheduler
from hivemind.scheduler.ticket import Refusal, Ticket, TicketState

__all__ = ["Refusal", "Scheduler", "Ticket", "TicketState"]
