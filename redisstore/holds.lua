-- The functions for keys with open holds that need a ledger. The text of ledger.lua
-- precedes this text, and holdvalue.lua is around both.
local ledgers, NOT_HELD = {}, {}
local COMMIT, EXTEND, DEBIT, TAKE_UP_TO, PEEK_SLOTS, LEASE = 8, 9, 10, 11, 12, 13 -- the verbs after OPEN

-- Flags of HEAD, and of the arguments of a run: RELEASE releases the units of a hold that
-- expires, CLIP charges no units that are not available, NO_RECORD keeps no record of the
-- hold, and ASK opens no hold: the run decides whether its units could be held.
local RELEASE, CLIP, NO_RECORD, ASK = 1, 2, 4, 16
local CHANGE, COMMIT_ARGS, EXTEND_ARGS = '<I4dI4ddI4', '<c12BdH', '<c12d'
local REPLAYED, UNKNOWN, CONFLICT, TOO_MANY, DENIED = 1, 2, 3, 4, 5 -- the statuses after OK
local HELD_REPLY = '<Bd' .. VALUE:sub(2)

-- A head with the flag LEASED is followed by the units of all leases, in 8 bytes. The
-- highest bits of a record's last field are its kind: 0 for a hold, 1 for a lease, 2 for
-- a lease that continues an open lease.
local KIND = 1073741824

local function has(flags, flag)
  return flags % (2 * flag) >= flag
end

-- log_functions are ledger.functions for a sliding log. The parameters of its limit are
-- the rule, and its state is the log, which the functions change.
local log_functions = no_debt()

function log_functions.take(rule, log, _, n)
  local ok = log_store.fits(log, rule, n)
  if ok then
    log_store.take(log, rule, n)
  end
  return log, ok
end

log_functions.is_log = true

function log_functions.clear(log)
  log_store.reset(log)
  return log
end

-- counted returns the number of units that count at an instant.
function log_functions.counted(rule, log, at)
  return log_store.counted(log, at - rule.w.period)
end

-- counts returns whether units that were spent at the instant charged_at count at another
-- one.
function log_functions.counts(rule, at, charged_at)
  return charged_at > at - rule.w.period
end

function log_functions.lease_end(rule, _, at)
  return at + rule.w.period
end

function log_functions.charge(rule, log, at, n)
  log_store.take(log, rule, n, at)
  return log
end

function log_functions.answer(rule, log, _, n, _, allowed)
  return log_store.answer(log, rule, n, allowed)
end

function log_functions.charged_at(_, log)
  return log_store.charged_at(log)
end

function log_functions.correct(rule, log, at, charged_at, n)
  log_store.correct(log, rule, at, charged_at, n)
  return log
end

-- load_from decodes all holds but the first ones, whose number is the parameter count.
-- The least debt of the last hold that is still encoded is in the ledger.
local function load_from(e, count)
  local list, at = {}, e.encoded_at + count * RECORD_BYTES
  for i = 1, e.encoded_count - count do
    local id, sum, units, deadline, m, rest, after = unpack_from(RECORD, e.encoded, at)
    list[i], at = {id = id, sum = sum, units = units, deadline = deadline, charged_at = m, least = m, rest = rest % KIND}, after
    if rest >= KIND then
      list[i].kind = floor(rest / KIND)
    end
  end
  local last = list[#list]
  last.least, last.rest = e.least, e.rest
  for i = 1, #e.list do
    list[#list + 1] = e.list[i]
  end
  e.list, e.encoded_count = list, count
  if count > 0 then
    e.least, e.rest = unpack_from(SEGMENT, e.encoded, e.encoded_at + count * RECORD_BYTES - SEGMENT_BYTES)
    e.rest = e.rest % KIND
  end
end

-- read decodes the head of the holds in the value v, from the position at on.
local function read(e, v, at)
  local changes
  e.flags, e.next_deadline, e.p, e.d, changes, at = unpack_from(HEAD, v, at)
  if e.flags >= LEASED then
    e.flags = e.flags - LEASED
    e.leased, at = unpack_from('<d', v, at)
  end
  for i = 1, changes do
    local c = {}
    e.changes = e.changes or {}
    c.before, c.p, c.d, c.cut, c.least, c.rest, at = unpack_from(CHANGE, v, at)
    e.changes[i] = c
  end
  e.encoded, e.encoded_at, e.encoded_count = v, at, (#v - at + 1) / RECORD_BYTES
  e.least, e.rest = unpack_from(SEGMENT, v, #v - SEGMENT_BYTES + 1)
  e.rest = e.rest % KIND
end

-- entry_of returns the ledger of key k. Most holds are decoded only when they are needed:
-- the first encoded_count holds are in the string encoded, from the position encoded_at
-- on, and the others in the list. The constructor has all fields, because adding a field
-- to a table is slow.
local function entry_of(k)
  local e = entries[k]
  if e then
    return e
  end
  e = {
    s = false, h = false, w = false, list = {}, encoded_count = 0, p = 0, d = 0, changes = nil, least = 0, rest = 0,
    encoded = '', encoded_at = 1, flags = 0, next_deadline = EXACT, last = last_opened[k] or 0, changed = false, write = false, leased = 0, oldest_leased = 0,
  }
  local v = opened[k] or held[k]
  if k > plain then
    e.log = logs[k]
    v = e.log.held or ''
    e.log.held = v
    if v ~= '' then
      read(e, v, 1)
    end
  elseif v ~= '' then
    read(e, v, VALUE_BYTES + 1)
    e.changed, e.write = opened[k] ~= nil, opened[k] ~= nil
  end
  entries[k] = e
  return e
end

-- use sets the state of the ledger, and the rule under which it is used.
local function use(e, rule, s)
  if e.log then
    e.h, e.w, e.s = log_functions, rule, e.log
  else
    e.h, e.w, e.s = ledger.functions(rule.x), rule.w, s
  end
end

-- begin returns the ledger of key k with the state s, after the holds that have expired
-- were ended.
local function begin(k, rule, s)
  local e = entry_of(k)
  use(e, rule, s)
  if e.encoded_count > 0 then
    local p, d = e.h.unit(e.w)
    if e.next_deadline <= t or e.changes or p ~= e.p or d ~= e.d or e.h.slots or e.log or e.leased > 0 then
      load_from(e, 0)
    end
  end
  if e.next_deadline <= t or e.leased > 0 then
    local expired
    expired, e.next_deadline = ledger.expire(e, t, has(e.flags, RELEASE))
    e.changed = e.changed or expired
  end
  if base[k] == nil then
    base[k], base_leased[k] = not opened[k] and e.s, e.leased
  end
  return e
end

-- position returns the number of the hold with the id if it is not in the list, or nil.
local function position(e, id)
  local at = e.encoded_at
  while e.encoded_count > 0 do
    local found = e.encoded:find(id, at, true)
    local i = found and (found - e.encoded_at) / RECORD_BYTES + 1
    if not found or i > e.encoded_count then
      return
    elseif i % 1 == 0 then
      return i
    end
    at = found + 1
  end
end

-- find returns the index of the hold with the id in the list, or nil. It decodes this
-- hold, the hold before it and all later ones.
local function find(e, id)
  local before = position(e, id)
  if before then
    load_from(e, max(0, before - 2))
  end
  local i = ledger.find(e, id)
  if i == 1 and e.encoded_count > 0 then
    load_from(e, e.encoded_count - 1)
    i = 2
  end
  return i
end

-- reply_with appends the result of a request for n units to the reply: its status, the
-- units that TAKE_UP_TO has taken or the deadline of the hold, and the state after the
-- request or the decision about a log or slots.
local function reply_with(e, status, value, n)
  local s, denied = e.s, status == DENIED
  if not e.log and not e.h.slots then
    answers[#answers + 1] = pack(HELD_REPLY, status, value, FORMAT, s.a, s.b, s.c, 0)
    return
  end
  answers[#answers + 1] = pack('<Bd', status, value)
  answer(e.log or NOT_HELD, ledger.answer(e, t, denied and n or 0, not denied))
end

-- reply_opened appends the result of a request that has opened a hold to the reply. For a
-- state, the caller computes the rest of the result.
local function reply_opened(e, deadline, n)
  if e.log or e.h.slots then
    reply_with(e, OK, deadline, n)
  else
    answers[#answers + 1] = OPENED
  end
end

-- check_open returns the status of a request to open a hold, or nil if it may be opened.
-- The second result is the deadline of a hold that was opened before.
local function check_open(e, id, sum, max_open, record)
  local i = position(e, id) and find(e, id) or ledger.find(e, id)
  local same, deadline
  if i then
    same, deadline = e.list[i].sum == sum, e.list[i].deadline
  elseif record > 0 then
    deadline = ended_hold(record, id)
    same = deadline and ended_hold(record, id .. sum)
  end
  if deadline then
    return same and REPLAYED or CONFLICT, deadline
  elseif e.encoded_count + #e.list >= max_open then
    return TOO_MANY
  end
end

-- add_hold opens a hold, and returns its deadline.
local function add_hold(e, id, sum, n, ttl, flags)
  local deadline = t + ttl
  ledger.open(e, t, id, n, deadline).sum = sum
  e.flags, e.next_deadline, e.last, e.changed = flags, min(e.next_deadline, deadline), max(e.last, deadline), true
  return deadline
end

local function run_open(e, n, pos)
  local id, sum, ttl, flags, max_open, record, after = unpack_from(OPEN_ARGS, runs, pos)
  local status, deadline = check_open(e, id, sum, max_open, record)
  if not status and ledger.take(e, t, n) then
    reply_opened(e, add_hold(e, id, sum, n, ttl, flags), n)
  else
    reply_with(e, status or DENIED, deadline or 0, n)
  end
  return after
end

-- keep_record keeps a hold that has ended until its deadline. If there are more than
-- max_open, it drops those with the earliest deadlines.
local function keep_record(record, hold, max_open)
  local key = KEYS[state_count + record]
  redis.call('ZREMRANGEBYSCORE', key, '-inf', t)
  redis.call('ZADD', key, hold.deadline, hold.id, hold.deadline, hold.id .. hold.sum)
  local excess = redis.call('ZCARD', key) - 2 * max_open
  if excess > 0 then
    redis.call('ZREMRANGEBYRANK', key, '0', excess - 1)
  end
  extend_ttl(key, ttl_end(hold.deadline))
end

local function run_commit(e, n, pos)
  local id, flags, max_open, record, after = unpack_from(COMMIT_ARGS, runs, pos)
  local i, status = find(e, id), OK
  if i then
    if not has(flags, NO_RECORD) then
      keep_record(record, e.list[i], max_open)
    end
    ledger.finish(e, t, i, n, has(flags, CLIP))
    e.changed = true
  elseif record > 0 and ended_hold(record, id) then
    status = REPLAYED
  else
    status = UNKNOWN
  end
  reply_with(e, status, 0, n)
  return after
end

local function run_extend(e, pos)
  local id, ttl, after = unpack_from(EXTEND_ARGS, runs, pos)
  local i, deadline = find(e, id), t + ttl
  if i then
    e.list[i].deadline = deadline
    e.next_deadline, e.last, e.changed = min(e.next_deadline, deadline), max(e.last, deadline), true
  end
  reply_with(e, i and OK or UNKNOWN, i and deadline or 0, 0)
  return after
end

-- run_adjust executes DEBIT and TAKE_UP_TO.
local function run_adjust(e, verb, n)
  if verb == TAKE_UP_TO then
    n = ledger.take_up_to(e, t, n)
  else
    ledger.charge(e, t, n)
  end
  reply_with(e, OK, n, n)
end

local LEASE_ARGS, LEASE_REPLY, NO_ID = '<c12dc12ddd', '<ddBd', ('\0'):rep(12)
local UP_TO_ARGS, NO_SUM = '<c12dB', ('\0'):rep(4)

-- run_lease ends a lease, begins a lease, or both. The reply has the deadline of the
-- lease, the units that are then on lease, the status, and the units of the lease.
local function run_lease(e, n, pos)
  local c, after = {want = n}, nil
  c.previous, c.spent, c.id, c.max, c.ttl, c.max_open, after = unpack_from(LEASE_ARGS, runs, pos)
  c.previous, c.id = c.previous ~= NO_ID and c.previous, c.id ~= NO_ID and c.id
  local units, deadline, previous_open = ledger.leases().apply(e, t, c)
  local status, newest = previous_open and REPLAYED or OK, e.list[#e.list]
  if not units then
    units, deadline, status = 0, 0, CONFLICT
  elseif previous_open or units > 0 then
    e.changed = true
  end
  if units > 0 then
    newest.sum = newest.sum or NO_SUM
    e.next_deadline, e.last = min(e.next_deadline, deadline), max(e.last, deadline)
  end
  local s = e.s
  if e.log then
    answers[#answers + 1] = pack(LEASE_REPLY, deadline, e.leased, status, units)
    answer(e.log, ledger.answer(e, t, 1, log_store.fits(e.log, e.w, 1)))
  else
    answers[#answers + 1] = pack('<dd', deadline, e.leased) .. pack(HELD_REPLY, status, units, FORMAT, s.a, s.b, s.c, 0)
  end
  return after
end

-- run_lowering executes RESET, and REFUND on a log. Units on lease stay spent.
local function run_lowering(e, rule, verb, n)
  if verb == REFUND then
    log_store.refund(e.log, rule, n)
    ledger.ensure_leased(e, t)
  else
    if e.leased == 0 then -- no hold needs to be decoded
      e.list, e.encoded_count = {}, 0
    end
    ledger.reset(e, t)
    e.changed = true
  end
  if e.log then
    answer(e.log, log_store.answer(e.log, rule, 0, true))
  end
end

-- skip_log returns the position after a run on a log that another program wrote. The verb
-- is one of holds.
local function skip_log(verb, pos)
  if verb == LEASE then
    answers[#answers + 1] = pack('<ddBd', 0, 0, OK, 0) .. ('\255'):rep(ANSWER_BYTES)
    return select(7, unpack_from(LEASE_ARGS, runs, pos))
  end
  answers[#answers + 1] = pack('<Bd', OK, 0) .. ('\255'):rep(ANSWER_BYTES)
  if verb <= EXTEND then
    local args = {unpack_from(verb == OPEN and OPEN_ARGS or verb == COMMIT and COMMIT_ARGS or EXTEND_ARGS, runs, pos)}
    pos = args[#args]
  end
  return pos
end

-- run executes one run on key k, which has open holds or whose verb is one of holds. It
-- returns the new state, if the key has one, and the position of the next run.
function ledgers.run(k, rule, s, verb, count, n, pos)
  if k > plain and not logs[k] then
    return nil, skip_log(verb, pos)
  end
  local e = begin(k, rule, s)
  e.write = e.write or verb ~= PEEK and verb ~= PEEK_SLOTS
  if verb == OPEN then
    pos = run_open(e, n, pos)
  elseif verb == COMMIT then
    pos = run_commit(e, n, pos)
  elseif verb == EXTEND then
    pos = run_extend(e, pos)
  elseif verb == PEEK_SLOTS then
    local _, fits = e.h.take(e.w, e.s, t, n)
    reply_with(e, fits and OK or DENIED, 0, n)
  elseif verb == LEASE then
    pos = run_lease(e, n, pos)
  elseif verb >= DEBIT then
    run_adjust(e, verb, n)
  elseif verb == RESET or (verb == REFUND and e.log) then
    run_lowering(e, rule, verb, n)
  elseif e.log then
    pos = run_log(k, rule, verb, count, n, pos)
  else
    local next
    next, pos = run(rule, e.s, verb, count, n, pos)
    if next ~= e.s then
      ledger.set(e, t, next)
    end
  end
  return e.s, pos
end

-- load returns the state of key k after the holds that have expired were ended. write is
-- whether the key may be written.
function ledgers.load(k, rule, s, write)
  local e = begin(k, rule, s)
  e.write = write
  return e.s
end

-- take is rule.x.take on key k, for units that are available.
function ledgers.take(k, rule, s, n)
  local e = entry_of(k)
  use(e, rule, s)
  ledger.take(e, t, n)
  return e.s
end

-- answer appends the decision about the debit c of slots to the reply.
function ledgers.answer(c)
  local e = held[c.k] and entry_of(c.k) or ledger.new()
  use(e, c.rule, states[c.k])
  answer(NOT_HELD, ledger.answer(e, t, c.asked, c.fits))
end

-- open_all opens a hold on every key, or on none: if a key denies, if a hold exists
-- already, or if a key has too many.
function ledgers.open_all()
  local list, ok, total_of, added, replayed = {}, true, {}, {}, false
  while pos <= size do
    local k, r, n, c, _
    k, r, _, _, n, pos = unpack_from(RUN, runs, pos)
    c = {k = k, rule = rules[r], n = n}
    c.id, c.sum, c.ttl, c.flags, c.max_open, c.record, pos = unpack_from(OPEN_ARGS, runs, pos)
    local log, fits = k > plain and log_of(k), nil
    c.e = begin(k, c.rule, states[k])
    c.e.write = true
    last_rule[k], states[k] = c.rule, c.e.s
    c.asks = has(c.flags, ASK)
    if not c.asks then
      c.status, c.deadline = check_open(c.e, c.id, c.sum, c.max_open - (added[k] or 0), c.record)
    end
    if not c.status then
      c.asked = n
      if not c.asks then -- as if the earlier holds of the key had been opened
        added[k], total_of[k] = (added[k] or 0) + 1, (total_of[k] or 0) + n
        c.asked = n > 0 and total_of[k] or 0
      end
      if log then
        fits = log_store.fits(log, c.rule, c.asked)
      else
        _, fits = c.rule.x.take(c.rule.w, c.e.s, t, c.asked)
      end
      c.status = not fits and DENIED or nil
    end
    ok = ok and (c.asks or not c.status)
    replayed = replayed or c.status == REPLAYED
    list[#list + 1] = c
  end
  for i = 1, replayed and #list or 0 do
    -- the same request was executed before, and some of its keys have been reset since
    if list[i].status ~= CONFLICT then list[i].status = REPLAYED end
  end
  for i = 1, #list do
    local c = list[i]
    use(c.e, c.rule, states[c.k])
    if ok and not c.asks then
      ledger.take(c.e, t, c.n)
      local deadline = add_hold(c.e, c.id, c.sum, c.n, c.ttl, c.flags)
      states[c.k] = c.e.s
      reply_opened(c.e, deadline, c.asked or c.n)
    else
      reply_with(c.e, c.status or OK, c.deadline or 0, c.asked or c.n)
    end
  end
end

-- take_up_to_all takes as many units as remain under every run, but at most the units of
-- the run. A run with a TTL opens a hold for these units.
function ledgers.take_up_to_all()
  local list, runs_of, granted = {}, {}, EXACT
  while pos <= size do
    local c, k, r, n, _ = {}, nil, nil, nil, nil
    k, r, _, _, n, pos = unpack_from(RUN, runs, pos)
    c.id, c.ttl, c.flags, pos = unpack_from(UP_TO_ARGS, runs, pos)
    if k > plain then
      log_of(k)
    end
    c.k, c.rule, c.e = k, rules[r], begin(k, rules[r], states[k])
    c.e.write, last_rule[k], states[k] = true, c.rule, c.e.s
    runs_of[k], granted = (runs_of[k] or 0) + 1, min(granted, n)
    list[#list + 1] = c
  end
  for i = 1, #list do
    local c = list[i]
    use(c.e, c.rule, states[c.k])
    granted = min(granted, floor(ledger.remaining(c.e, t) / runs_of[c.k]))
  end
  for i = 1, #list do
    local c = list[i]
    use(c.e, c.rule, states[c.k])
    ledger.take(c.e, t, granted)
    if c.ttl > 0 and granted > 0 then
      add_hold(c.e, c.id, NO_SUM, granted, c.ttl, c.flags)
    end
    states[c.k] = c.e.s
  end
  for i = 1, #list do -- all runs on a key have the state after the last of them
    local c = list[i]
    use(c.e, c.rule, states[c.k])
    reply_with(c.e, OK, granted, granted)
  end
end

-- encode_holds returns the holds as they are stored.
local function encode_holds(e)
  local list, changes = e.list, e.changes
  local flags = e.flags + (e.leased > 0 and LEASED or 0)
  local parts = {pack(HEAD, flags, e.next_deadline, e.p, e.d, changes and #changes or 0)}
  if e.leased > 0 then
    parts[2] = pack('<d', e.leased)
  end
  for i = 1, changes and #changes or 0 do
    local c = changes[i]
    parts[#parts + 1] = pack(CHANGE, c.before, c.p, c.d, c.cut, c.least, c.rest)
  end
  if e.encoded_count > 0 then
    parts[#parts + 1] = e.encoded:sub(e.encoded_at, e.encoded_at + e.encoded_count * RECORD_BYTES - SEGMENT_BYTES - 1)
    parts[#parts + 1] = pack(SEGMENT, e.least, e.rest)
  end
  for i = 1, #list do
    local hold = list[i]
    local m = hold.least
    if e.d == 0 then
      m = hold.charged_at
    end
    parts[#parts + 1] = pack(RECORD, hold.id, hold.sum, hold.units, hold.deadline, m, hold.rest + (hold.kind or 0) * KIND)
  end
  return concat(parts)
end

local function last_deadline(e)
  if e.encoded_count > 0 then
    load_from(e, 0)
  end
  local last = 0
  for i = 1, #e.list do
    last = max(last, e.list[i].deadline)
  end
  return last
end

-- encode_log is holds.encode_log for a log that was used.
function ledgers.encode_log(k)
  local e, log = entries[k], logs[k]
  if not e.write then
    return false
  end
  log.held = nil
  if #e.list > 0 then
    log.held, log.last_deadline = encode_holds(e), last_deadline(e)
    if e.leased > 0 then
      log.last_deadline = log.last_deadline + e.w.w.period -- its units then count
    end
  end
  log.changed = log.changed or e.changed
  return true
end

ledgers.entry_of, ledgers.encode, ledgers.last_deadline = entry_of, encode_holds, last_deadline
return ledgers
