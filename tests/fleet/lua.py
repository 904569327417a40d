"""The scripts that a fleet's store runs, run here: what they decide, without a store between.

Redis runs Lua 5.1 too. What it would keep as JSON is kept as tables, which a script gets copies of, as by decoding.
"""

from __future__ import annotations

from importlib import resources
from typing import Any, TypeVar

import msgspec
from lupa import luajit21 as lua  # type: ignore[import-untyped]

from hivemind.fleet import budgets
from hivemind.fleet.messages import SyncReply, SyncReport

T = TypeVar("T")

_STORE = """
local kept
local function copied(value)
  if type(value) ~= 'table' then return value end
  local made = {}
  for key, each in pairs(value) do made[key] = copied(each) end
  return made
end
local commands = {
  GET = function(key) return kept or false end,
  SET = function(key, value) kept = value end,
  HGET = function(key, name) return kept[name] or false end,
  HSET = function(key, name, value) kept[name] = value end,
  HDEL = function(key, name) kept[name] = nil end,
  HMGET = function(key, ...)
    local found = {}
    for index, name in ipairs({...}) do found[index] = kept[name] or false end
    return found
  end,
  HSCAN = function(key)
    local found = {}
    for name, value in pairs(kept) do
      found[#found + 1] = name
      found[#found + 1] = value
    end
    return {'0', found}
  end,
  PUBLISH = function() return 0 end,
}
cjson = {encode = copied, decode = copied}
redis = {
  call = function(name, ...) return commands[name](...) end,
  error_reply = function(text) return {err = text} end,
}
local function run(script, state, ...)
  kept = state
  KEYS, ARGV = {'hm:lane:ab'}, {...}
  local answer = script()
  return kept, answer
end
return {run = run, copied = copied}
"""
_LUA = lua.LuaRuntime()
_TOOLS = _LUA.execute(_STORE)
_ALLOCATOR, _BUDGETS = (
    _LUA.eval("loadstring")(resources.files("hivemind.fleet").joinpath(name).read_text("utf-8"))
    for name in ("allocator.lua", "budgets.lua")
)
FRESH_S = 1.25
"""How long a new state gives nothing out, so that others can tell what they used."""


class OtherProtocol(Exception):
    """The report, or the state, is of another protocol."""


class State:
    """What is kept of one lane, or of the fleet's budgets."""

    def __init__(self, table: Any = None) -> None:
        self.table = _LUA.table() if table is None else table

    def copied(self) -> State:
        """Return a copy that stays as it is."""
        return State(_TOOLS.copied(self.table))

    def plain(self) -> Any:
        """Return it as plain values."""
        return _plain(self.table)

    def __getitem__(self, name: str) -> Any:
        return self.table[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self.table[name] = value


def sync(state: State | None, report: SyncReport, now: float, seed: str) -> tuple[State, SyncReply]:
    """Report of a lane. Return its state afterwards, and the answer. Raises: OtherProtocol."""
    table, answer = _TOOLS.run(_ALLOCATOR, None if state is None else state.table, _told(report), seed, now)
    if answer.err:
        raise OtherProtocol(answer.err)
    return State(table), _answer(answer, SyncReply)


def sync_budgets(state: State, report: budgets.BudgetReport, now: float, seed: str) -> budgets.BudgetReply:
    """Report of budgets, which changes the state, and return the answer."""
    _, answer = _TOOLS.run(_BUDGETS, state.table, _told(report), seed, budgets.CHANNEL, now)
    return _answer(answer, budgets.BudgetReply)


def _told(report: object) -> Any:
    return _LUA.table_from(msgspec.json.decode(msgspec.json.encode(report)), recursive=True)


def _answer(table: Any, kind: type[T]) -> T:
    return msgspec.convert(_plain(table), kind)


def _plain(value: Any) -> Any:
    if lua.lua_type(value) != "table":
        return value
    made = {key: _plain(each) for key, each in value.items()}
    return [*made.values()] if made and all(isinstance(key, int) for key in made) else made
