-- What each member of a fleet may use of one lane, as the store decides it at every sync. Tests run this script without a
-- store (tests/fleet/lua.py), and in one.
--
-- Times are seconds of the store's clock, lists by class have the priority classes first and the spare last. Rate windows
-- are leased as credits, because a rate that moves between members is spent twice inside one minute. Whoever holds credits
-- uses them up or gives them back; until then they count as used.
--
-- KEYS[1]  the lane's state, hm:lane:{LANE}
-- ARGV[1]  the report, as JSON
-- ARGV[2]  random digits, which become part of an epoch's name if one begins
-- ARGV[3]  only in tests: the time in seconds. They run years of a lane's life in seconds. Otherwise the store's clock
--          counts, which is one for all members.
-- Returns the answer as JSON, or an error: HMPROTOCOL (a state of another version), HMSTATE (the key holds no state).
--
-- FRESH_S: How long the state of an empty key gives nothing if it is told by a proxy that has just started. The fleet
--   may be as new, or the key was lost and others haven't synced yet, which takes an idle one a second.
-- AGEING_S: A class that waits without being given anything counts one higher for each of these, as in the local
--   queue.
-- BACKWARDS_S: A clock that goes back further than this begins a new epoch; until then the latest time counts.
-- EPS: Amounts below this are rounding.
-- SLOT_MOVES_S: Slot-seconds by which a member without a slot must be behind one that has it to get it instead.
-- MOST_OWED_S: Slot-seconds that a member can be behind or ahead at most.
-- OVERDUE_S: A member that waits for so long without being given anything is next in its class, as an agent in the
--   local queue; room for a large request gathers only so.
-- MAX_SHARE: A request larger than this share of a limit needs only so much, as locally, or it would never be sent.
-- RESERVE: Share of a limit that only CRITICAL is given, as long as there are such requests: a full window frees
--   little in any one second.
-- RESERVED_FOR_S: After the last CRITICAL request.
-- GROWTH, REFUSED_GROWTH, LEAST_FULL: As in hivemind.scheduler.limits.
--
-- What is kept:
-- MemberWindow: What a member last told of one window, and what it is due.
--   limit: as told, if not from headers
--   due: Its account: its part of what has become free since its class doesn't fit as a whole; below 0 after a turn.
--   gave: in the last answer
--   unmet_since: Since when it wants something and was given nothing.
--   mine: used in this minute of the clock
--   mine_before: and in the one before
--   lapsed: credits that counted as spent when it fell silent
--   lapsed_at: the second of the ring in which they did
--   open: of an assumed limit, what its requests in flight have taken
-- Member: One member of the fleet.
--   slots: as last answered
--   slots_before: as answered before that: in force until the next report shows that the answer has come
--   owed: slot-seconds by which it is behind its share
--   kicked: since its last report
-- Window: One window of the lane.
--   ring: What was used, by second modulo the length.
--   second: the newest of the ring
--   limit: as stated by headers
--   assumed: limit that nobody has stated, as it has grown or was cut from the smallest of the profiles (assumed_of)
--   refused: the provider has refused what was assumed before
--   changes, changed_at: how often it has changed, and when it last did
--   foreign: used by other clients of the key, as of the newest statement
--   marginal: class that doesn't fit as a whole; -1: all fits
--   served_at: By class: when it was last given something, or wanted nothing.
-- Circuit: The circuit of the lane.
--   prober: the member that sends the probe
--   family: the only one that it keeps
-- State: All that is known of one lane.
--   epoch: Milliseconds of its beginning in 13 digits, and random ones: of two states the later one is known.
--   now: of the last sync
--   pauses: until when, by family of models; *: of the whole lane
--   resumed_in: version in which an operator ended the pauses
--   level: None: at the beginning that is assumed, if there is one, otherwise at the ceiling
--   changed_at: the level
--   critical_at: when there last were CRITICAL requests
--   served_at: By class: when it last had a request in flight, or none waited.
--   owed_at: as of when slot-seconds are counted

local PROTOCOL, CREDITS_TTL_S, SLOTS_TTL_S, RING_S, SYNC_S, KICK_APART_S = 2, 3, 10, 61, 0.25, 0.05
local KEPT_MS = 3600000
local CLASSES, SPARE, PERIOD_S = 4, 5, 60 -- classes count from 1 here
local FRESH_S, AGEING_S, OVERDUE_S, MAX_SHARE = 1.25, 30, 60, 0.9
local RESERVE, RESERVED_FOR_S = 0.01, 120
local GROWTH, REFUSED_GROWTH, LEAST_FULL = 0.25, 0.1, 0.5
local SLOT_MOVES_S, MOST_OWED_S, BACKWARDS_S, EPS = 1, 60, 60, 1e-6
local INF = math.huge
local floor, max, min = math.floor, math.max, math.min

local is_stale, begun_ms, begin_epoch, relearn, expire, lapse, add_use
local take_report, turn_minute, window_of, member_window, take_demand, take_use, take_statement, take_growth
local take_level, ceiling, smallest, level_of, take_pause, take_circuit, trip
local share_window, limit_of, limits_of, used_in_minute, held, room_of, ages, needs_of, lack_of, share_margin, contenders
local settle_accounts, fill, weight, turns, whole_requests, ask_back_or_offer, note_served
local share_slots, held_slots, slot_targets, slot_ages, slots_wanted, count_owed, rounded
local kicked, answer, window_lease, padded

local function zeros(count)
  local list = {}
  for index = 1, count do list[index] = 0 end
  return list
end

local function filled(count, value)
  local list = {}
  for index = 1, count do list[index] = value end
  return list
end

local function sum(list, last)
  local total = 0
  for index = 1, last or #list do total = total + list[index] end
  return total
end

local function sorted(keyed)
  local names = {}
  for name in pairs(keyed) do names[#names + 1] = name end
  table.sort(names)
  return names
end

local in_order -- names of the members, sorted; sums come out the same everywhere
local window_in, weight_in -- by member, its part of the window that is shared, and its weight: looked up often

-- Take in a report at `now`, and answer it. The state passed in is used up: the one returned replaces it.
-- `seed` is random and goes into the name of an epoch, should one begin.
-- Raises: OtherProtocol: The report, or a state in use, is of another protocol.
local function sync(state, report, now, seed)
  if report.protocol ~= PROTOCOL then
    return nil, 'HMPROTOCOL the report is of protocol ' .. tostring(report.protocol) .. ', this is ' .. PROTOCOL
  end
  if state and state.protocol ~= PROTOCOL then
    if now - state.now < RING_S then
      return nil, 'HMPROTOCOL the state is of protocol ' .. tostring(state.protocol) .. ', this is ' .. PROTOCOL
    end
    state = nil
  end
  if not state or is_stale(state, report, now) then
    state = begin_epoch(state, report, now, seed)
  end
  now = max(state.now, now)
  state.now = now
  local member = state.members[report.member]
  in_order = sorted(state.members)
  if member and report.seq <= member.seq then
    return state, answer(state, report.member, now, {})
  end
  state.version = state.version + 1
  relearn(state, report, now)
  expire(state, now)
  member = take_report(state, report, now)
  in_order = sorted(state.members)
  take_use(state, member, report, now)
  take_level(state, report, now)
  take_pause(state, report, now)
  take_circuit(state, report, now)
  if report.leaving then
    state.members[report.member] = nil
    in_order = sorted(state.members)
    if state.circuit.prober == report.member then
      state.circuit.prober = nil
    end
    return state, answer(state, report.member, now, {})
  end
  local kick = {}
  for _, name in ipairs(sorted(state.windows)) do
    local mine = member.windows[name]
    mine.gave = share_window(state, name, report.member, now, kick)
    mine.left = mine.left + mine.gave
  end
  share_slots(state, report.member, now, kick)
  return state, answer(state, report.member, now, kicked(state, report.member, now, kick))
end

-- --- what has been

-- Whether the state has lost writes (a failover to a replica that was behind, a clock set back).
function is_stale(state, report, now)
  if state.now - now > BACKWARDS_S or begun_ms(report.epoch) > begun_ms(state.epoch) then
    return true
  end
  return report.epoch == state.epoch and report.version > state.version
end

-- Return when an epoch began; 0: none.
function begun_ms(epoch)
  return tonumber(string.match(string.sub(epoch, 1, 13), '^%d+$') or 0)
end

-- Return a state that knows nothing, and gives nothing until those who do have told it.
function begin_epoch(state, report, now, seed)
  local earlier = max(begun_ms(report.epoch), state and begun_ms(state.epoch) or 0)
  local begun = max(floor(now * 1000), earlier + 1)
  local learn_s = (report.epoch ~= '' or state) and CREDITS_TTL_S or FRESH_S
  return {
    protocol = PROTOCOL, epoch = string.format('%013.0f', begun) .. seed, now = now, begun_at = now,
    learn_until = now + learn_s, version = 0, pauses = {}, resumed_in = 0, cuts = 0, changed_at = 0,
    critical_at = 0, served_at = filled(CLASSES, now), owed_at = now,
    circuit = {open = false, trips = 0, open_for_s = 0}, windows = {}, members = {},
  }
end

-- After the store was away for all, give nothing until the others have told what they used meanwhile.
function relearn(state, report, now)
  local others, heard_at = false, -INF
  for name, each in pairs(state.members) do
    others = others or name ~= report.member
    heard_at = max(heard_at, each.heard_at)
  end
  if others and now - heard_at >= CREDITS_TTL_S then
    state.learn_until = max(state.learn_until, now + CREDITS_TTL_S)
  end
end

-- Count the credits of silent members as spent, and forget those that were silent for longer.
function expire(state, now)
  for _, name in ipairs(in_order) do
    local member = state.members[name]
    local silent_s = now - member.heard_at
    if silent_s >= CREDITS_TTL_S then
      lapse(state, member, now)
    end
    if silent_s >= SLOTS_TTL_S then
      state.members[name] = nil
      if state.circuit.prober == name then
        state.circuit.prober = nil
      end
    end
  end
end

-- Count what a member holds as spent at the last moment at which it could spend it, and its wishes as gone.
function lapse(state, member, now)
  local second = floor(member.heard_at + CREDITS_TTL_S)
  member.waiting = zeros(CLASSES)
  for name, mine in pairs(member.windows) do
    mine.wanted, mine.first, mine.due = zeros(SPARE), 0, 0
    if mine.left > 0 then
      add_use(state.windows[name], second, mine.left, now)
      mine.lapsed, mine.lapsed_at = mine.left, second
    end
    mine.left = 0
  end
end

-- Add to what was used in a second; those that have left the ring are of no interest.
function add_use(window, second, amount, now)
  local newest, ring = floor(now), window.ring
  if newest > window.second then
    for passed = max(window.second, newest - RING_S) + 1, newest do
      ring[passed % RING_S + 1] = 0
    end
    window.second = newest
  end
  if window.second - RING_S < second then
    local index = min(second, window.second) % RING_S + 1
    ring[index] = ring[index] + amount
  end
end

-- --- what a member tells

-- Note what a member holds and wants.
function take_report(state, report, now)
  local member = state.members[report.member]
  if not member then
    member = {owed = 0, slots = 0, slots_before = 0, heard_at = now, windows = {}}
    state.members[report.member] = member
  end
  if report.epoch ~= '' and report.epoch ~= state.epoch then
    state.learn_until = max(state.learn_until, state.begun_at + CREDITS_TTL_S)
    state.cuts = max(state.cuts, report.cuts or 0)
    state.circuit.trips = max(state.circuit.trips, report.trips or 0)
    if report.level and now < state.learn_until then
      state.level = min(state.level or INF, report.level)
    end
  end
  turn_minute(member, now)
  member.seq, member.heard_at, member.kicked = report.seq, now, false
  member.in_flight = padded(report.in_flight, CLASSES)
  member.waiting = padded(report.waiting, CLASSES)
  member.agents = padded(report.agents, CLASSES)
  member.ceiling = report.ceiling
  if member.begin ~= report.begin then
    if member.begin then
      state.level = nil -- something else turned out to be there
    end
    member.begin = report.begin
  end
  if member.in_flight[1] + member.waiting[1] > 0 then
    state.critical_at = now
  end
  for name in pairs(report.windows) do
    window_of(state, name, now)
  end
  for name, window in pairs(state.windows) do
    local mine = member_window(member, name, now)
    take_demand(window, mine, report.windows[name] or {limit = mine.limit, rank = mine.rank}, now)
  end
  return member
end

-- Begin another minute of what the member used, if the clock has.
function turn_minute(member, now)
  local minutes = floor(now / PERIOD_S) - floor(member.heard_at / PERIOD_S)
  if minutes ~= 0 then
    for _, mine in pairs(member.windows) do
      mine.mine_before = minutes == 1 and mine.mine or 0
      mine.mine = 0
    end
  end
end

-- Return a window of the lane, made if it is new.
function window_of(state, name, now)
  if not state.windows[name] then
    state.windows[name] = {
      ring = zeros(RING_S), second = floor(now), foreign = 0, stated_at = 0, marginal = -1,
      served_at = filled(CLASSES, now),
    }
  end
  return state.windows[name]
end

function member_window(member, name, now)
  if not member.windows[name] then
    member.windows[name] = {
      wanted = zeros(SPARE), left = 0, first = 0, rank = 0, due = 0, gave = 0, unmet_since = now, mine = 0,
      mine_before = 0, lapsed = 0, lapsed_at = 0,
    }
  end
  return member.windows[name]
end

-- Note what a member holds and wants of a window.
function take_demand(window, mine, demand, now)
  if mine.lapsed > 0 then
    add_use(window, mine.lapsed_at, -mine.lapsed, now)
    mine.lapsed = 0
  end
  mine.wanted = padded(demand.wanted, SPARE)
  mine.left = demand.left or 0
  mine.first = max(demand.first or 0, 0)
  mine.rank = demand.rank or 0
  mine.open = demand.open
  mine.limit = nil
  if mine.rank ~= 1 then
    mine.limit = demand.limit
  elseif not window.limit then
    window.limit = demand.limit
  end
end

-- Add what a member used to the ring, and hear what the headers state.
-- A member that learns of a new epoch tells its last minute once, from which a lost state rebuilds itself; what it
-- used since the report before is part of that.
function take_use(state, member, report, now)
  if report.epoch == state.epoch then
    local minute = report.minute and next(report.minute) and report.minute
    for name, told in pairs(minute or report.windows) do
      local window, mine = window_of(state, name, now), member_window(member, name, now)
      for _, use in ipairs(minute and told or told.used or {}) do
        add_use(window, floor(now - max(use[1], 0)), use[2], now)
        mine.mine = mine.mine + use[2]
      end
    end
    if minute then
      state.learn_until = max(state.learn_until, min(state.begun_at + CREDITS_TTL_S, now + CREDITS_TTL_S))
    end
  end
  for name, demand in pairs(report.windows) do
    take_statement(state, name, demand, now)
    take_growth(state, name, demand, report.settle_s or 0, now)
  end
end

-- Let the provider's own count correct ours: what it counts beyond all that members used or hold, others used.
-- What they hold is taken off, because they may have used it without having said so yet. A state that is learning
-- doesn't know enough to compare.
function take_statement(state, name, demand, now)
  local stated, window = demand.stated, state.windows[name]
  if not stated or stated.limit <= 0 or now - (stated.age_s or 0) < window.stated_at then
    return
  end
  window.limit = stated.limit
  if now < state.learn_until then
    return
  end
  window.stated_at = now - (stated.age_s or 0)
  local ours = used_in_minute(window, now) + held(state, name)
  window.foreign = max(0, stated.limit - max(stated.remaining, 0) - ours)
end

-- Move a limit that is only assumed as hivemind.scheduler.limits.Window does for one proxy. What is told belongs to a
-- number of changes, so that a refusal that several members meet cuts once.
function take_growth(state, name, demand, settle_s, now)
  local window, stated, profile = state.windows[name], limits_of(state, name)
  if stated or not profile or (demand.changes or 0) ~= (window.changes or 0) then
    return
  end
  local limit, used = limit_of(state, name), used_in_minute(window, now)
  local settled = now - (window.changed_at or -INF) >= (window.refused and PERIOD_S or settle_s)
  if demand.refused then
    local open = 0
    for _, each in ipairs(in_order) do
      local theirs = state.members[each].windows[name]
      open = open + (theirs and theirs.open or 0)
    end
    window.assumed = math.ceil(max(1, used - open, limit * LEAST_FULL))
    window.refused = true
  elseif demand.grow and settled and used + held(state, name) >= MAX_SHARE * limit then
    window.assumed = math.ceil(limit * (1 + (window.refused and REFUSED_GROWTH or GROWTH)))
  else
    return
  end
  window.assumed_of = profile
  window.changes, window.changed_at = (window.changes or 0) + 1, now
end

-- Move the concurrency level as hivemind.scheduler.admission.aimd.Aimd does for one proxy.
-- A cut belongs to a number of cuts, so that one congestion that several members meet cuts once.
function take_level(state, report, now)
  local top = ceiling(state)
  local lowest = report.floor or 1
  if report.pin then
    state.pinned = nil
    if report.pin > 0 then
      state.pinned = min(max(report.pin, lowest), top)
      state.level = state.pinned
    end
    state.changed_at = now
  end
  if state.pinned then
    return
  end
  local height = min(state.level or smallest(state, 'begin'), top)
  if report.cut and (report.cuts or 0) == state.cuts then
    if height == INF then
      height = 0
      for _, name in ipairs(in_order) do height = height + sum(state.members[name].in_flight) end
    end
    state.level = max(min(lowest, top), height * report.cut)
    state.cuts = state.cuts + 1
    state.changed_at = now
  elseif (report.grow or 0) > 0 and height < top and now - state.changed_at >= (report.settle_s or 0) then
    state.level = height + report.grow
    state.changed_at = now
  end
  if state.level and state.level >= top then
    state.level = smallest(state, 'begin') < top and top or nil
  end
end

-- Return the highest level that all members' settings allow; inf: they limit it nowhere.
function ceiling(state)
  return smallest(state, 'ceiling')
end

-- Return the smallest value of a field of the members; inf: none has one.
function smallest(state, field)
  local lowest = INF
  for _, member in pairs(state.members) do
    lowest = min(lowest, member[field] or INF)
  end
  return lowest
end

-- Return the level in force; None: no limit.
function level_of(state)
  if state.pinned then
    return state.pinned
  end
  local level = min(state.level or smallest(state, 'begin'), ceiling(state))
  return level < INF and level or nil
end

-- Pause for all what the provider asked one for. A member that doesn't know yet that an operator ended the pause still
-- tells of it, which doesn't count.
function take_pause(state, report, now)
  if report.resumed then
    state.pauses = {}
    state.resumed_in = state.version
  elseif report.epoch ~= state.epoch or report.version >= state.resumed_in then
    for family, for_s in pairs(report.pauses or {}) do
      state.pauses[family] = max(state.pauses[family] or 0, now + for_s)
    end
  end
  for family, pause_until in pairs(state.pauses) do
    if pause_until <= now then
      state.pauses[family] = nil
    end
  end
end

-- Open and close the circuit for all, and let one member send the probe.
function take_circuit(state, report, now)
  local circuit = state.circuit
  local forced = report.forced
  if forced then
    circuit.forced = (forced == 'open' or forced == 'closed') and forced or nil
    circuit.open = forced == 'open' or forced == 'probe'
    circuit.reopens_at = forced == 'probe' and now or nil
    circuit.prober, circuit.family = nil, nil
    circuit.trips = circuit.trips + 1
  elseif not circuit.forced and (report.trips or 0) == circuit.trips then
    if report.opened_for_s and (not circuit.open or (circuit.family and not report.opened_family)) then
      circuit.family = report.opened_family
      trip(circuit, report.opened_for_s, now)
    elseif circuit.open and circuit.prober == report.member and report.probe_ok ~= nil then
      if report.probe_ok then
        circuit.open, circuit.reopens_at, circuit.prober, circuit.family = false, nil, nil, nil
        circuit.trips = circuit.trips + 1
      else
        trip(circuit, report.opened_for_s or circuit.open_for_s, now)
      end
    end
  end
  if circuit.prober == report.member and not report.can_probe then
    circuit.prober = nil
  end
  local ripe = circuit.open and circuit.reopens_at and now >= circuit.reopens_at
  if ripe and not circuit.prober and report.can_probe and not report.leaving then
    circuit.prober = report.member
  end
end

-- Open the circuit for so long.
function trip(circuit, open_for_s, now)
  circuit.open, circuit.open_for_s, circuit.reopens_at, circuit.prober = true, open_for_s, now + open_for_s, nil
  circuit.trips = circuit.trips + 1
end

-- --- sharing a rate window

-- Return the credits that a member gets of a window.
-- Class by class: one whose unmet demand fits is met whole, whoever of it syncs. The first that doesn't (the marginal
-- one) is shared through accounts (share_margin), and nothing is left for those below.
function share_window(state, name, me, now, kick)
  local window, mine = state.windows[name], state.members[me].windows[name]
  local limit = limit_of(state, name)
  if not limit then
    window.marginal = -1
    return max(0, sum(mine.wanted) - mine.left)
  end
  local shift = ages(window.served_at, now)
  local needs = {}
  window_in, weight_in = {}, {}
  for _, each in ipairs(in_order) do
    window_in[each] = state.members[each].windows[name]
    needs[each] = needs_of(window_in[each], shift)
  end
  local room = room_of(state, name, limit, now)
  local family = name:match('^(.*)|')
  local closed = state.pauses['*'] or state.pauses[family] or now < state.learn_until
  local give, marginal, whole_until = 0, -1, SPARE + 1
  for cls = 1, SPARE do
    if cls == 2 and now - state.critical_at < RESERVED_FOR_S then
      room = max(0, room - RESERVE * limit)
    end
    local total = 0
    for _, each in ipairs(in_order) do total = total + needs[each][cls] end
    if total > room + EPS then
      marginal, whole_until = cls, cls
      break
    end
    room = room - total
    give = give + needs[me][cls]
  end
  if closed then
    return 0
  end
  local part = 0
  if marginal >= 0 then
    part = share_margin(state, name, needs, marginal, room, give, limit, shift, me, now, kick)
  else
    for _, each in pairs(state.members) do
      if each.windows[name] then each.windows[name].due = 0 end
    end
  end
  window.marginal = marginal >= 0 and marginal - 1 or -1 -- counts from 0 in the state, as in allocator.py
  give = give + part
  for _, other in ipairs(in_order) do
    if other ~= me then
      ask_back_or_offer(window_in[other], other, needs[other], whole_until, limit, kick)
    end
  end
  note_served(state, name, me, shift, part <= EPS and whole_until or whole_until + 1, now)
  if give > EPS or sum(needs[me], CLASSES) <= EPS then
    mine.unmet_since = now
  end
  return give
end

-- Return the limit in force; None: there is none.
function limit_of(state, name)
  local window, stated, profile = state.windows[name], limits_of(state, name)
  return stated or (window.assumed_of == profile and window.assumed) or profile
end

-- Return the limit that somebody has stated, the smallest that settings name, but not above the headers', or else the
-- headers'; and the smallest that a profile assumes. None: there is none.
function limits_of(state, name)
  local profile, settings
  local headers = state.windows[name].limit
  for _, member in pairs(state.members) do
    local mine = member.windows[name]
    if mine and mine.limit then
      if mine.rank == 0 then
        profile = min(profile or INF, mine.limit)
      elseif mine.rank == 2 then
        settings = min(settings or INF, mine.limit)
      end
    end
  end
  if settings then
    headers = min(settings, headers or INF)
  end
  return headers, profile
end

-- Return what all used in the seconds that the ring holds.
function used_in_minute(window, now)
  add_use(window, floor(now), 0, now)
  return max(0, sum(window.ring))
end

-- Return the credits that all members hold.
function held(state, name)
  local total = 0
  for _, each in ipairs(in_order) do
    local mine = state.members[each].windows[name]
    if mine then total = total + max(mine.left, 0) end
  end
  return total
end

-- Return what may still be given of a window.
function room_of(state, name, limit, now)
  local window, free = state.windows[name], limit
  if window.limit and now - window.stated_at < PERIOD_S then
    free = min(free, window.limit - window.foreign)
  end
  return max(0, free - used_in_minute(window, now) - held(state, name))
end

-- Return the class that each class counts as; the spare doesn't age.
function ages(served_at, now)
  local shift = {}
  for cls = 1, CLASSES do
    shift[cls] = max(1, cls - floor((now - served_at[cls]) / AGEING_S))
  end
  shift[SPARE] = SPARE
  return shift
end

-- Return what a member wants beyond what it holds, by the class that it counts as; higher classes use up first what it
-- holds, and a debt is paid first.
function needs_of(mine, shift)
  local need = zeros(SPARE)
  if not mine then
    return need
  end
  local left, wanted = mine.left, mine.wanted
  for cls = 1, SPARE do
    if wanted[cls] > 0 then
      local lacks = wanted[cls] - left
      left = max(-lacks, 0)
      need[shift[cls]] = need[shift[cls]] + max(lacks, 0)
    end
  end
  return need
end

-- Return what a member that holds `base` lacks for its next request; at most 0: nothing, or none waits.
function lack_of(mine, base, limit)
  return mine.first > 0 and min(mine.first, MAX_SHARE * limit) - base or 0
end

-- Return a member's part of the room that is left for the class that doesn't fit.
-- Dividing what is there at each sync favours whoever syncs first. So what becomes free is divided at once between the
-- accounts of all who want some, and each gets its account at its own sync. A part of a request doesn't help, so that
-- with small limits or large requests one member at a time gets what the others' accounts hold, and its own goes below
-- 0 (deficit round robin, Shreedhar and Varghese 1995).
function share_margin(state, name, needs, cls, room, given, limit, shift, me, now, kick)
  local unmet = contenders(state, name, needs, cls, room, limit, shift, now)
  local mine_among = settle_accounts(state, name, needs, cls, room, unmet, shift)[me]
  local part = 0
  local mine = window_in[me]
  if mine_among then
    local base = mine.left + given
    local lack = lack_of(mine, base, limit)
    local account = min(mine.due, needs[me][cls], room)
    if lack > account + EPS then
      local covered, next_one = turns(state, name, needs, cls, unmet, limit, shift, me, now)
      if next_one == me and lack <= room - covered + EPS then
        part = lack
      end
    elseif account > 0 then
      part = whole_requests(mine, name, base, account, needs[me][cls], limit)
    end
    mine.due = mine.due - part
    room = room - part
  end
  local covered, next_one = turns(state, name, needs, cls, unmet, limit, shift, '', now)
  for _, each in ipairs(unmet) do
    local theirs = window_in[each]
    local above = sum(needs[each], cls - 1)
    local lack = lack_of(theirs, theirs.left + above, limit)
    if lack > 0 and (lack <= min(theirs.due, room) + EPS or (each == next_one and lack <= room - covered + EPS)) then
      kick[each] = true
    end
  end
  return part
end

-- Return who shares the marginal class: all who want some; or the one whose turn it is, if it waits for too long and
-- the room isn't enough for it: then room gathers.
function contenders(state, name, needs, cls, room, limit, shift, now)
  local unmet, first, most, since = {}, '', -INF, INF
  for _, each in ipairs(in_order) do
    if needs[each][cls] > EPS then
      unmet[#unmet + 1] = each
      local theirs = window_in[each]
      if theirs.first > 0 and now - state.members[each].heard_at <= 2 * SYNC_S then
        local ratio = theirs.due / weight(state, each, cls, shift)
        if ratio > most + EPS or (ratio > most - EPS and theirs.unmet_since < since) then
          first, most, since = each, ratio, theirs.unmet_since
        end
      end
    end
  end
  if now - since < OVERDUE_S then
    return unmet
  end
  local theirs = window_in[first]
  return lack_of(theirs, theirs.left + sum(needs[first], cls - 1), limit) > room + EPS and {first} or unmet
end

-- Make the accounts add up to the room: divide what was added to it by weight, but to none more than it wants; or take
-- off in proportion what was lost.
function settle_accounts(state, name, needs, cls, room, unmet, shift)
  local taking_part = {}
  for _, each in ipairs(unmet) do taking_part[each] = true end
  local total, positive = 0, 0
  for _, each in ipairs(in_order) do
    local theirs = window_in[each]
    if theirs then
      if needs[each][cls] <= EPS or not taking_part[each] then
        theirs.due = min(theirs.due, 0)
      else
        theirs.due = min(theirs.due, needs[each][cls])
        total = total + theirs.due
        positive = positive + max(theirs.due, 0)
      end
    end
  end
  if room > total then
    local weights, caps = {}, {}
    for _, each in ipairs(unmet) do
      weights[each] = weight(state, each, cls, shift)
      caps[each] = needs[each][cls] - window_in[each].due
    end
    for each, share in pairs(fill(room - total, weights, caps)) do
      local theirs = window_in[each]
      theirs.due = theirs.due + share
    end
  elseif positive > 0 then
    local factor = max(0, positive + room - total) / positive
    for _, each in ipairs(unmet) do
      local theirs = window_in[each]
      if theirs.due > 0 then theirs.due = theirs.due * factor end
    end
  end
  return taking_part
end

-- Divide an amount by weight, nobody getting more than its cap (weighted water-filling).
function fill(amount, weights, caps)
  local names, ratios, shares, total = {}, {}, {}, 0
  for _, each in ipairs(in_order) do
    if weights[each] then
      names[#names + 1] = each
      total = total + weights[each]
      ratios[each] = caps[each] / weights[each]
    end
  end
  table.sort(names, function(one, other)
    if ratios[one] ~= ratios[other] then return ratios[one] < ratios[other] end
    return one < other
  end)
  for _, each in ipairs(names) do
    local share = min(caps[each], amount * weights[each] / total)
    shares[each] = share
    amount = amount - share
    total = total - weights[each]
  end
  return shares
end

-- Return the agents of a member whose class counts as this one; of all classes for the spare.
function weight(state, name, cls, shift)
  if not weight_in[name] then -- for one class at a time
    local agents, count = state.members[name].agents, 0
    for own = 1, CLASSES do
      if cls > CLASSES or shift[own] == cls then count = count + agents[own] end
    end
    weight_in[name] = count > 0 and count or 1
  end
  return weight_in[name]
end

-- Return what is in the accounts that suffice for their members' next request (but `me`'s), and whose turn it is of
-- the others: who has most in relation to its weight. One that syncs late is passed over.
function turns(state, name, needs, cls, unmet, limit, shift, me, now)
  local covered, next_one, most = 0, '', -INF
  for _, each in ipairs(unmet) do
    local theirs = window_in[each]
    local lack = lack_of(theirs, theirs.left + sum(needs[each], cls - 1), limit)
    if lack > 0 then
      if lack <= min(theirs.due, needs[each][cls]) + EPS then
        covered = covered + (each ~= me and theirs.due or 0)
      elseif now - state.members[each].heard_at <= 2 * SYNC_S then
        local ratio = theirs.due / weight(state, each, cls, shift)
        if ratio > most + EPS or (each == me and ratio >= most - EPS) then
          most, next_one = ratio, each
        end
      end
    end
  end
  return covered, next_one
end

-- Return so much of an account as makes up whole requests; parts held by many would use up a small limit.
function whole_requests(mine, name, base, account, need, limit)
  if account >= need - EPS then
    return account
  end
  local unit = min(mine.first, MAX_SHARE * limit)
  if unit <= 0 and string.sub(name, -9) == '|requests' then
    unit = 1
  end
  if unit <= 0 then
    return account
  end
  return max(0, unit * floor((base + account) / unit + EPS) - base)
end

-- Kick a member whose waiting requests fit whole, or that keeps spare credits while there isn't enough.
function ask_back_or_offer(theirs, name, need, whole_until, limit, kick)
  if not theirs then
    return
  end
  if whole_until < SPARE and theirs.left - sum(theirs.wanted, CLASSES) > EPS then
    kick[name] = true
  end
  local above = sum(need, whole_until - 1)
  if theirs.first > 0 and above > EPS and lack_of(theirs, theirs.left, limit) > EPS then
    kick[name] = true
  end
end

-- Begin the ageing anew of the classes of which the member got something, and of those that nobody wants.
function note_served(state, name, me, shift, below, now)
  local window, mine = state.windows[name], window_in[me]
  local totals = zeros(CLASSES)
  for _, theirs in pairs(window_in) do
    local wanted = theirs.wanted
    for cls = 1, CLASSES do totals[cls] = totals[cls] + wanted[cls] end
  end
  for cls = 1, CLASSES do
    if totals[cls] <= EPS or (mine.wanted[cls] > EPS and shift[cls] < below) then
      window.served_at[cls] = now
    end
  end
end

-- --- sharing slots

-- Set the slots of a member: its part of the level, as far as the others have left it room.
-- The part may be below what is in flight. What is in flight counts as held, and so does what was leased before, until
-- the member's next report shows that it knows better. While a higher class waits for a slot, nobody may fill one
-- again that becomes free in a lower class, wherever that is; otherwise the higher class would wait for one member's.
function share_slots(state, me, now, kick)
  local level = level_of(state)
  local member = state.members[me]
  member.slots_before = member.slots
  if not level then
    member.slots = 0
    return
  end
  local targets, urgent = slot_targets(state, floor(level), now)
  local in_flight = sum(member.in_flight)
  if now < state.learn_until then
    member.slots = in_flight
    return
  end
  local others = 0
  for _, each in ipairs(in_order) do
    if each ~= me then others = others + held_slots(state.members[each]) end
  end
  local free = max(0, floor(level) - others)
  member.slots = min(targets[me], free)
  local unmet = 0
  for each in pairs(urgent) do unmet = unmet + max(0, targets[each] - state.members[each].slots) end
  if unmet > 0 and not urgent[me] then
    member.slots = min(member.slots, max(0, in_flight - unmet))
  end
  free = free - max(in_flight, member.slots, member.slots_before)
  local short = false
  for _, each in ipairs(in_order) do
    local other = state.members[each]
    local waiting = sum(other.waiting) > 0
    local waits = waiting
    if unmet > 0 then waits = urgent[each] end
    if free > 0 and waits and targets[each] > other.slots then
      kick[each] = true
    end
    if unmet > 0 and not urgent[each] and other.slots > max(0, sum(other.in_flight) - unmet) then
      kick[each] = true
    end
    short = short or (waiting and targets[each] > other.slots)
  end
  if not short then
    return
  end
  for _, each in ipairs(in_order) do
    if state.members[each].slots > targets[each] then kick[each] = true end
  end
  if held_slots(member) > max(in_flight, member.slots) then
    kick[me] = true
  end
end

-- Return the slots that a member may be using.
function held_slots(member)
  return max(sum(member.in_flight), member.slots, member.slots_before)
end

-- Divide the level into whole slots: class by class; by weight in the one that doesn't fit; the rest evenly. Return
-- the members' parts, and for whom requests of a higher class wait than the one that doesn't fit; these get slots
-- beside all that is in flight there.
function slot_targets(state, level, now)
  local shift = slot_ages(state, now)
  local part, rest, torn, above = {}, level, nil, {}
  for _, each in ipairs(in_order) do part[each], above[each] = 0, 0 end
  for cls = 1, CLASSES do
    local caps, total = {}, 0
    for _, each in ipairs(in_order) do
      local cap = slots_wanted(state.members[each], cls, shift)
      if cap > 0 then
        caps[each] = cap
        total = total + cap
      end
    end
    if total > rest then
      local weights = {}
      weight_in = {}
      for each in pairs(caps) do weights[each] = weight(state, each, cls, shift) end
      torn = fill(rest, weights, caps)
      break
    end
    for each, cap in pairs(caps) do
      part[each] = part[each] + cap
      for own = 1, CLASSES do
        if shift[own] == cls then above[each] = above[each] + state.members[each].waiting[own] end
      end
    end
    rest = rest - total
  end
  for each, share in pairs(torn or {}) do part[each] = part[each] + share end
  count_owed(state, part, torn or {}, now)
  local targets, urgent = {}, {}
  if not torn then
    local spare, more = floor(rest / #in_order), rest % #in_order
    for index, each in ipairs(in_order) do
      targets[each] = part[each] + spare + (index <= more and 1 or 0)
    end
    return targets, urgent
  end
  targets = rounded(state, part, level, torn)
  for _, each in ipairs(in_order) do
    if above[each] > 0 then
      urgent[each] = true
      targets[each] = max(targets[each], sum(state.members[each].in_flight) + above[each])
    end
  end
  return targets, urgent
end

-- Return the class that each class counts as.
function slot_ages(state, now)
  for cls = 1, CLASSES do
    local waiting, in_flight = 0, 0
    for _, each in pairs(state.members) do
      waiting = waiting + each.waiting[cls]
      in_flight = in_flight + each.in_flight[cls]
    end
    if waiting == 0 or in_flight > 0 then
      state.served_at[cls] = now
    end
  end
  return ages(state.served_at, now)
end

-- Return the requests of a member that count as of a class.
function slots_wanted(member, cls, shift)
  local total = 0
  for each = 1, CLASSES do
    if shift[each] == cls then total = total + member.in_flight[each] + member.waiting[each] end
  end
  return total
end

-- Add up by how many slot-seconds each member that shares the marginal class is behind its part.
function count_owed(state, part, torn, now)
  local passed_s = now - state.owed_at
  state.owed_at = now
  for _, name in ipairs(in_order) do
    local member = state.members[name]
    if not torn[name] then
      member.owed = 0
    else
      local behind = member.owed + (part[name] - max(sum(member.in_flight), member.slots)) * passed_s
      member.owed = min(max(behind, -MOST_OWED_S), MOST_OWED_S)
    end
  end
end

-- Return whole slots that add up to the level: what is left of a rounding down goes to those most behind, and moves
-- only if it is worth it.
function rounded(state, part, level, torn)
  local targets, rest, behind = {}, level, {}
  for _, name in ipairs(in_order) do
    targets[name] = floor(part[name] + EPS)
    rest = rest - targets[name]
  end
  for _, name in ipairs(in_order) do
    if torn[name] and part[name] - targets[name] > EPS then
      local member = state.members[name]
      local stays = member.slots > targets[name] and SLOT_MOVES_S or 0
      behind[#behind + 1] = {-(member.owed + stays), targets[name] - part[name], name}
    end
  end
  table.sort(behind, function(one, other)
    if one[1] ~= other[1] then return one[1] < other[1] end
    if one[2] ~= other[2] then return one[2] < other[2] end
    return one[3] < other[3]
  end)
  for index = 1, min(rest, #behind) do
    targets[behind[index][3]] = targets[behind[index][3]] + 1
  end
  return targets
end

-- --- the answer

-- Return whom to kick: nobody twice before it has synced, or just after that.
function kicked(state, me, now, kick)
  local names = {}
  for _, name in ipairs(sorted(kick)) do
    local member = state.members[name]
    if name == me or (not member.kicked and now - member.heard_at >= KICK_APART_S) then
      member.kicked = true
      names[#names + 1] = name
    end
  end
  return names
end

-- Return what a member may use. It follows from the state alone, so that a repeated report is answered as it was the
-- first time, if nothing has changed since; what was given then is part of the state.
function answer(state, me, now, kick)
  local member, level, circuit = state.members[me], level_of(state), state.circuit
  local windows, in_flight, waiting, pauses = {}, 0, 0, {}
  for family, pause_until in pairs(state.pauses) do pauses[family] = max(0, pause_until - now) end
  if member then
    for name, mine in pairs(member.windows) do
      windows[name] = window_lease(state, name, mine, now)
    end
  end
  for _, each in pairs(state.members) do
    in_flight = in_flight + sum(each.in_flight)
    waiting = waiting + sum(each.waiting)
  end
  return {
    epoch = state.epoch, version = state.version, learning = now < state.learn_until, windows = windows,
    slots = level and member and member.slots or nil, level = level, cuts = state.cuts,
    pauses = pauses, family = circuit.family,
    circuit = not circuit.open and 'closed' or circuit.prober == me and 'probe' or 'open', trips = circuit.trips,
    reopens_in_s = circuit.reopens_at and max(0, circuit.reopens_at - now) or nil, forced = circuit.forced,
    pinned = state.pinned, members = #in_order, in_flight = in_flight, waiting = waiting,
    kick = #kick > 0 and kick or nil, -- an empty list would come out as {}
  }
end

-- Return what a member is told of a window.
function window_lease(state, name, mine, now)
  local window = state.windows[name]
  local fresh = 1 - now % PERIOD_S / PERIOD_S
  local limit = limit_of(state, name)
  return {
    give = mine.gave, limit = limit, room = limit and room_of(state, name, limit, now), used = used_in_minute(window, now),
    mine = max(0, mine.mine + mine.mine_before * fresh),
    tight = window.marginal >= 0 and window.marginal < SPARE - 1, changes = window.changes, refused = window.refused,
  }
end

-- Return the values by class, those that weren't told as 0, none below.
function padded(values, length)
  local list = zeros(length)
  for index = 1, min(length, #(values or {})) do
    list[index] = max(values[index], 0)
  end
  return list
end

-- --- the store

local function now_s()
  if ARGV[3] then
    return tonumber(ARGV[3])
  end
  local time = redis.call('TIME')
  return tonumber(time[1]) + tonumber(time[2]) / 1000000
end

local report = cjson.decode(ARGV[1])
report.epoch, report.version, report.windows = report.epoch or '', report.version or 0, report.windows or {}
local text, state = redis.call('GET', KEYS[1]), nil
if text then
  local ok, value = pcall(cjson.decode, text)
  if not ok or type(value) ~= 'table' or not tonumber(value.protocol) or not tonumber(value.now) then
    return redis.error_reply('HMSTATE ' .. KEYS[1] .. " holds no state of a lane")
  end
  state = value
end
local after, reply = sync(state, report, now_s(), ARGV[2] or '')
if not after then
  return redis.error_reply(reply)
end
redis.call('SET', KEYS[1], cjson.encode(after), 'PX', KEPT_MS)
for _, name in ipairs(reply.kick or {}) do
  redis.call('PUBLISH', (string.gsub(KEYS[1], '^hm:lane:', 'hm:kick:')), name)
end
return cjson.encode(reply)
