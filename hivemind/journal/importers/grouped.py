"""Attempts put together to requests: a client that tries again says so, or our own export does."""

from __future__ import annotations

from collections.abc import Iterable

from hivemind.journal.importers.parsed import ParsedAttempt

Key = tuple[object, ...]


def grouped(tries: Iterable[ParsedAttempt]) -> list[list[ParsedAttempt]]:
    """Each request's attempts in order, the requests in the order in which they came."""
    requests: list[list[ParsedAttempt]] = []
    open_ones: dict[Key, list[ParsedAttempt]] = {}
    """Whose last attempt failed, so that there may be another."""
    for tried in sorted(tries, key=lambda each: each.entry.began_at):
        key, number = _key(tried), _number(tried)
        before = open_ones.pop(key, None) if number > 1 else None
        if before is not None and before[-1].entry.ended_at <= tried.entry.began_at + 0.001:
            before.append(tried)
        else:
            before = [tried]
            requests.append(before)
        if tried.failure is not None:
            open_ones[key] = before
    return requests


def _key(tried: ParsedAttempt) -> Key:
    ticket = tried.entry.hints.ticket
    if ticket is not None:
        return ("ticket", ticket)
    return (tried.identity.agent, tried.lane, tried.entry.origin, tried.request)


def _number(tried: ParsedAttempt) -> int:
    """Which attempt at its request it says it is, from 1."""
    return tried.entry.hints.attempt or (tried.client.retry_count or 0) + 1
