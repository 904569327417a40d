-- The budgets of a fleet: what all members together have used of each, and how much each may still use.
--
-- Figures are kept by ledger rather than by process, so that a proxy that is started again on its own state goes on where
-- it was. A chunk is a part of what is left, which gets smaller with it, and at least as large as the next request. It is
-- kept for a member that falls silent until CHUNK_S; some time before, the member ceases to use it. So nothing is guessed
-- while the store is away: what could be used then was set aside before. A request larger than all that is left is let
-- through at one member, when nothing else is in flight under the budget.
--
-- KEYS[1]: the hash. ARGV: the report as JSON, a random seed, the channel, and (tests only) the time in seconds.
-- Absent fields have their default: 0, false, empty. Answers with JSON; with "protocol" where the state is another's.
--
-- LIVE_S: A member that was silent for so long isn't waited for.
-- LEARN_S: How long a state that was lost gives nothing: all members sync meanwhile.
-- FRESH_S: Likewise where a proxy that has just started finds no state: the fleet may be as new, but others may be
--   idle.
-- GONE_S: A run of a proxy that was silent for so long has ended.
-- KEPT_S: How long a day's or a run's account is kept that no member reports.
-- EVER_KEPT_S: And one that counts for a month or for ever: as long as a proxy remembers an agent that isn't seen.
-- PRUNE_EVERY_S: What isn't kept is as if it weren't there; it is removed little by little: this often a few fields
--   are looked at.
-- MOST_CHANGES: Revisions that are looked through for one answer.
--
-- What is kept:
-- Member: What is known of one ledger's proxy.
-- Entry: One ledger's part of an account.
--   raw: Used, as reported.
--   base: By how much it was more before: a kill loses the last moment's use.
--   chunk: Set aside for it.
--   short: It waits for more than it was given.
--   until: The chunk is kept so long.
--   member: The process that reported it. Another one of the ledger has no chunk; what it doesn't report doesn't go
--     on.
-- Account: One budget and period.
--   lost: Used by ledgers that a lost state had known and that haven't been back since.
--   known: While the state learns: the highest sum that a member remembers.
-- State: All of it.
--   order: Names by the revision of their decision.

local PROTOCOL, LIVE_S, LEARN_S, FRESH_S, CHUNK_S, GONE_S = 2, 3, 3, 1.25, 120, 86400
local KEPT_S, EVER_KEPT_S, PRUNE_EVERY_S, MOST_CHANGES, EPS = 8 * 86400, 90 * 86400, 1, 500, 1e-9
local LOOKED_AT = 20 -- fields that are looked at together, whether they are still needed
local KINDS = {'tokens', 'dollars'}

local key, report = KEYS[1], cjson.decode(ARGV[1])
local now = tonumber(ARGV[4])
if not now then
  local time = redis.call('TIME')
  now = tonumber(time[1]) + tonumber(time[2]) / 1e6
end
local max, min = math.max, math.min

local function load(name)
  local text = redis.call('HGET', key, name)
  return text and cjson.decode(text) or nil
end

local function save(name, value)
  redis.call('HSET', key, name, cjson.encode(value))
end

local state = load('state') or {protocol = PROTOCOL, epoch = '', members = {}}
for _, name in ipairs({'version', 'rev', 'defaults_rev', 'learn_until', 'prune_at'}) do
  state[name] = state[name] or 0
end

-- Amounts --------------------------------------------------------------------------------------------------------

local function amount(given)
  given = given or {}
  return {tokens = given.tokens or 0, dollars = given.dollars or 0}
end

local function plus(one, other)
  return {tokens = one.tokens + other.tokens, dollars = one.dollars + other.dollars}
end

local function minus(one, other)
  return {tokens = one.tokens - other.tokens, dollars = one.dollars - other.dollars}
end

local function at_least(each)
  return {tokens = max(0, each.tokens), dollars = max(0, each.dollars)}
end

-- Members --------------------------------------------------------------------------------------------------------

local function is_live(member)
  return member and not member.left and now - member.at < LIVE_S
end

local function same(one, other)
  if not one or not other then return not one and not other end
  for _, name in ipairs({'tokens', 'dollars', 'pool_tokens', 'pool_dollars', 'per'}) do
    if one[name] ~= other[name] then return false end
  end
  return true
end

local function take_defaults(before)
  if not same(report.defaults, before and before.defaults) then
    state.rev = state.rev + 1
    state.defaults_rev = state.rev
  end
end

-- Take what was decided. Return whether something was.
local function take_decisions()
  local taken, names = false, {}
  for name in pairs(report.decided or {}) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    local decision, held = report.decided[name], load('decided|' .. name)
    local version, wins = decision.version, true
    if held then
      wins = version ~= 0 and (version > held.version or (version == held.version and decision.by > held.by))
      if wins then redis.call('HDEL', key, 'order|' .. string.format('%d', held.rev)) end
    end
    if wins then
      state.rev = state.rev + 1
      decision.rev = state.rev
      save('decided|' .. name, decision)
      redis.call('HSET', key, 'order|' .. string.format('%d', state.rev), name)
      taken = true
    end
  end
  return taken
end

local function tell_changes(reply)
  local seen = report.rev or 0
  local last, fields = min(state.rev, seen + MOST_CHANGES), {}
  for rev = seen + 1, last do fields[#fields + 1] = 'order|' .. string.format('%d', rev) end
  if #fields > 0 then
    for _, name in ipairs(redis.call('HMGET', key, unpack(fields))) do
      if name then reply.decided[name] = load('decided|' .. name) end
    end
  end
  reply.rev = last
  if last ~= seen then reply.again = true end
end

local function is_over(name, account)
  local per = name:match('^[^|]*|([^|]*)|') or ''
  local long = per == 'ever' or per:sub(1, 6) == 'month:'
  return now - (account.at or 0) > (long and EVER_KEPT_S or KEPT_S)
end

local function prune()
  if now < state.prune_at then return end
  state.prune_at = now + PRUNE_EVERY_S
  local gone = {}
  for name, member in pairs(state.members) do
    if now - member.at > GONE_S then gone[#gone + 1] = name end
  end
  for _, name in ipairs(gone) do state.members[name] = nil end
  local found = redis.call('HSCAN', key, state.cursor or '0', 'COUNT', LOOKED_AT)
  state.cursor = found[1]
  for i = 1, #found[2], 2 do
    local name = found[2][i]
    if name:sub(1, 8) == 'account|' and is_over(name:sub(9), cjson.decode(found[2][i + 1])) then
      redis.call('HDEL', key, name)
    end
  end
end

-- One account ----------------------------------------------------------------------------------------------------

local function has_chunk(ledger, entry)
  local member = state.members[ledger]
  return (entry['until'] or 0) > now and member and not member.left and member.member == entry.member
end

local function is_open(ledger, entry)
  local member = state.members[ledger]
  if not member or member.left or now - member.at >= GONE_S then return false end
  return entry.open and member.member == entry.member
end

local function used_of(account)
  local used = amount(account.lost)
  for _, entry in pairs(account.entries) do used = plus(used, plus(entry.base, entry.raw)) end
  return used
end

local function limits_of(entries)
  local found = {}
  for _, entry in ipairs(entries) do
    for kind, limit in pairs(entry.limit or {}) do found[kind] = min(found[kind] or limit, limit) end
  end
  return found
end

-- Whether all members know of the budget: one that doesn't may not have told yet what it used.
local function in_force(demand)
  local rev = demand.default and state.defaults_rev or 0
  local name = demand.account:match('^[^|]*|[^|]*|(.*)$')
  local decision = load('decided|' .. name)
  if decision then rev = max(rev, decision.rev) end
  for _, member in pairs(state.members) do
    if is_live(member) and (member.rev or 0) < rev then return false end
  end
  return true
end

local function entry_of(demand, account, learning)
  local ledger, run = report.ledger, demand.run or ''
  local entry = account.entries[ledger]
  local begins = run ~= '' and demand.open and (not entry or entry.run ~= run or not entry.open)
  if begins and not learning then
    local others = false
    for name, each in pairs(account.entries) do
      if name ~= ledger and is_open(name, each) then others = true end
    end
    if not others then
      account.entries, account.lost = {}, amount()
      if entry and entry.run == run then account.entries[ledger] = entry end
    end
  end
  if not entry and run ~= '' and not demand.open and not learning then
    return {raw = amount(), base = amount(), chunk = amount(), run = run}
  end
  if not entry then
    account.lost = at_least(minus(account.lost, demand.used))
  end
  if not entry or entry.run ~= run then
    entry = {raw = amount(), base = amount(), chunk = amount(), run = run}
    account.entries[ledger] = entry
  end
  entry.base = plus(entry.base, at_least(minus(entry.raw, demand.used)))
  entry.raw, entry.open, entry.member = demand.used, demand.open, report.member
  return entry
end

-- Remember use that only a lost state knew of.
local function learn(account, demand, learning)
  if learning then
    local known = plus(demand.used, demand.elsewhere)
    if account.known then
      known = {tokens = max(known.tokens, account.known.tokens), dollars = max(known.dollars, account.known.dollars)}
    end
    account.known = known
  elseif account.known then
    local lost = minus(account.known, minus(used_of(account), account.lost))
    account.lost, account.known = at_least(lost), nil
  end
end

-- Decide the member's chunk, of both kinds.
local function give(demand, entry, others, limits, used, tight, part)
  local fits, larger, open, idle = true, false, true, demand.in_flight == 0
  for _, kind in ipairs(KINDS) do
    if limits[kind] then
      local left, held = limits[kind] - used[kind], 0
      for _, each in ipairs(others) do held = held + each.chunk[kind] end
      local reserved, first = demand.reserved[kind], demand.first[kind]
      local room, more = max(0, left - held - reserved), 0
      if first > room + EPS then
        fits = false
        larger = larger or first > left + EPS
      else
        local spare = tight and 0 or max(0, left) / (2 * part.members)
        more = min(room, max(spare, first, min(demand.ask[kind], room / 2)))
      end
      open = open and left > EPS
      idle = idle and held <= EPS
      part.chunk[kind] = reserved + more
    end
  end
  for _, each in ipairs(others) do
    if (each.in_flight or 0) > 0 or each.alone then idle = false end
  end
  if not fits and larger and open and idle then
    part.alone = true
    for _, kind in ipairs(KINDS) do
      if limits[kind] then part.chunk[kind] = limits[kind] - used[kind] end
    end
  end
  entry.short = not fits and not part.alone
end

local function take_account(demand, reply)
  for _, name in ipairs({'used', 'elsewhere', 'reserved', 'chunk', 'first', 'ask'}) do
    demand[name] = amount(demand[name])
  end
  demand.in_flight = demand.in_flight or 0
  local field = 'account|' .. demand.account
  local account = load(field)
  if not account or is_over(demand.account, account) then account = {entries = {}} end
  account.lost = amount(account.lost)
  local entry = entry_of(demand, account, reply.learning)
  learn(account, demand, reply.learning)
  local others = {}
  for name, each in pairs(account.entries) do
    if name ~= report.ledger and has_chunk(name, each) then others[#others + 1] = each end
  end
  entry.limit, entry.in_flight, entry.unpriced = demand.limit, demand.in_flight, demand.unpriced
  account.at = now
  local kept = {
    tokens = max(demand.chunk.tokens, demand.reserved.tokens, 0),
    dollars = max(demand.chunk.dollars, demand.reserved.dollars, 0),
  }
  local wants = demand.active and not report.leaving
  local keeps = wants or (not report.leaving and (kept.tokens > EPS or kept.dollars > EPS))
  entry['until'] = keeps and now + CHUNK_S or 0
  local used, unpriced = used_of(account), 0
  for _, each in pairs(account.entries) do unpriced = unpriced + (each.unpriced or 0) end
  local part = {account = demand.account, used = used, unpriced = unpriced, chunk = amount()}
  part.members = #others + (wants and 1 or 0)
  entry.short, entry.alone = false, false
  local tight, all = false, {entry}
  for _, each in ipairs(others) do
    all[#all + 1] = each
    if each.short then tight = true end
  end
  local limits = limits_of(all)
  if not wants then
    part.chunk = demand.reserved
  elseif reply.learning or not in_force(demand) then
    part.chunk, part.alone = kept, demand.alone
    entry.short = demand.first.tokens > 0
  else
    give(demand, entry, others, limits, used, tight, part)
  end
  local held = entry.chunk
  entry.alone = part.alone
  entry.chunk = {tokens = max(kept.tokens, part.chunk.tokens), dollars = max(kept.dollars, part.chunk.dollars)}
  if tight and (part.chunk.tokens < kept.tokens - EPS or part.chunk.dollars < kept.dollars - EPS) then
    reply.again = true
  end
  local frees = entry.chunk.tokens < held.tokens - EPS or entry.chunk.dollars < held.dollars - EPS
  if tight and frees then reply.kick = true end
  if entry.short then
    for _, each in ipairs(others) do
      for kind in pairs(limits) do
        if each.chunk[kind] > EPS then reply.kick = true end
      end
    end
  end
  save(field, account)
  reply.accounts[#reply.accounts + 1] = part
end

-- The sync -------------------------------------------------------------------------------------------------------

if state.protocol ~= report.protocol then return 'protocol' end
if state.epoch == '' then
  state.epoch = ARGV[2]
  state.learn_until = now + ((report.epoch or '') ~= '' and LEARN_S or FRESH_S)
elseif report.epoch == state.epoch and (report.version or 0) > state.version then
  state.version = report.version
  state.learn_until = now + LEARN_S
end
local reply = {epoch = state.epoch, version = state.version, rev = report.rev or 0, accounts = {}, decided = {}}
local before = state.members[report.ledger]
if before and now - before.at > GONE_S then before = nil end
if not (before and before.member == report.member and report.seq < before.seq) then
  state.version = state.version + 1
  reply.version = state.version
  reply.learning = now < state.learn_until
  prune()
  take_defaults(before)
  state.members[report.ledger] = {
    member = report.member, seq = report.seq, rev = report.rev or 0, at = now, left = report.leaving or false,
    defaults = report.defaults,
  }
  reply.kick = take_decisions()
  for _, demand in ipairs(report.accounts or {}) do take_account(demand, reply) end
  tell_changes(reply)
  local defaults = {}
  for _, member in pairs(state.members) do
    if not member.left and now - member.at < CHUNK_S and member.defaults then
      defaults[#defaults + 1] = member.defaults
    end
  end
  if #defaults > 0 then reply.defaults = defaults end
  save('state', state)
  if reply.kick then redis.call('PUBLISH', ARGV[3], report.ledger) end
end
if #reply.accounts == 0 then reply.accounts = nil end
return cjson.encode(reply)
