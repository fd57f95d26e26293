-- Keys with open holds. The value of such a key is its state with the format HELD, then
-- the list of holds. A sliding log contains the list as log.lua describes. The list is
-- HEAD (flags, and an instant that is not after the earliest deadline), then a RECORD for
-- each hold, in the order in which the holds began. The field m of a record is the least
-- debt of its segment or, for an algorithm that counts in windows or a log, where the
-- units were charged.
--
-- A hold has a name of 12 bytes, and a checksum of the request that opened it. A request
-- with the same name and another checksum is a conflict.
--
-- A hold that has ended before its deadline is kept until then as a key of its own, so
-- that a repeated request has no effect. The run has the number of this key, or 0 if a
-- request to open the hold cannot be a repeated one.
local holds = {}
local HEAD, RECORD, ENDED = '<Bd', '<c12c4dddI4', '<c4d'
local RELEASE, CLIP, NO_RECORD = 1, 2, 4 -- flags; the last one is that of an undone hold
local OPEN_ARGS, COMMIT_ARGS, EXTEND_ARGS = '<c12c4dBdH', '<c12BH', '<c12d'
local OK, REPLAYED, UNKNOWN, CONFLICT, TOO_MANY, DENIED = 0, 1, 2, 3, 4, 5
local entries = {}

local function has(flags, flag)
  return flags % (2 * flag) >= flag
end

-- entry_of returns the holds of key k: the list for the ledger, and the fields of HEAD.
local function entry_of(k)
  local e = entries[k]
  if e then
    return e
  end
  e = {list = {}, flags = 0, next = EXACT}
  local v, at = held[k], VALUE_BYTES + 1
  if k > plain then
    logs[k].held = logs[k].held or ''
    v, at = logs[k].held, 1
  end
  if v ~= '' then
    e.flags, e.next, at = unpack_from(HEAD, v, at)
    while at <= #v do
      local id, sum, units, deadline, m, rest, after = unpack_from(RECORD, v, at)
      e.list[#e.list + 1] = {id = id, sum = sum, units = units, deadline = deadline, charged_at = m, least = m, rest = rest}
      at = after
    end
  end
  entries[k] = e
  return e
end

-- log_account is ledger.account for a sliding log.
local function log_account(log, rule)
  local a = {log = log, rule = rule, d = 1}
  function a.adopt()
    return false
  end
  function a.take(_, n)
    local ok = log_store.fits(log, rule, n)
    if ok then
      log_store.take(log, rule, n)
    end
    return ok
  end
  function a.charge(_, n)
    log_store.take(log, rule, n)
  end
  function a.remaining()
    return log_store.answer(log, rule, 0, true).remaining
  end
  function a.charged_at()
    return log_store.charged_at(log)
  end
  function a.debt()
    return 0, 0
  end
  a.debt_of = a.debt
  function a.correct(at, charged_at, n)
    log_store.correct(log, rule, at, charged_at, n)
  end
  return a
end

-- begin returns the holds and the account of key k with the state s, after the holds that
-- have expired were ended.
local function begin(k, rule, s)
  local e = entry_of(k)
  local a = k > plain and log_account(logs[k], rule) or ledger.account(rule.x, rule.w, s)
  if e.next <= t and ledger.expire(e.list, a, t, has(e.flags, RELEASE)) then
    e.changed = true
  end
  e.base = e.base or a.s
  return e, a
end

-- reply_with appends the result of a request for n units to the reply: its status, the
-- units that TAKE_UP_TO has taken or the deadline of the hold, and the state after the
-- request or the decision about a log or slots.
local function reply_with(e, a, status, value, n)
  answers[#answers + 1] = pack('<Bd', status, value)
  local denied = status == DENIED
  if a.log then
    answer(a.log, log_store.answer(a.log, a.rule, denied and n or 0, not denied))
  elseif a.slots then
    answer(e, ledger.answer(e.list, a, t, denied and n or 0, not denied))
  else
    answers[#answers + 1] = pack(VALUE, FORMAT, a.s.a, a.s.b, a.s.c, 0)
  end
end

-- ended_hold returns the checksum and the deadline of a hold that has ended, if its
-- deadline is after t.
local function ended_hold(record)
  local ended = redis.call('GET', KEYS[record])
  if ended then
    local sum, deadline = unpack_from(ENDED, ended)
    if deadline > t then
      return sum, deadline
    end
  end
end

-- check_open returns the status of the request c to open a hold, or nil if it may be
-- opened. It sets the deadline of a hold that was opened before.
local function check_open(e, c, max_open)
  local i, sum = ledger.find(e.list, c.id), nil
  if i then
    sum, c.deadline = e.list[i].sum, e.list[i].deadline
  elseif c.record > 0 then
    sum, c.deadline = ended_hold(c.record)
  end
  if sum then
    return sum == c.sum and REPLAYED or CONFLICT
  elseif #e.list >= max_open then
    return TOO_MANY
  end
end

-- open_args returns a request for n units with the arguments of OPEN, and the position
-- after them.
local function open_args(n, pos)
  local c = {n = n}
  c.id, c.sum, c.ttl, c.flags, c.max_open, c.record, pos = unpack_from(OPEN_ARGS, runs, pos)
  return c, pos
end

-- add_hold adds the hold of the request c.
local function add_hold(e, a, c)
  c.deadline = t + c.ttl
  ledger.open(e.list, a, t, c.id, c.n, c.deadline)
  e.list[#e.list].sum = c.sum
  e.flags, e.next, e.changed = c.flags, min(e.next, c.deadline), true
end

local function run_open(e, a, n, pos)
  local c, after = open_args(n, pos)
  local status = check_open(e, c, c.max_open)
  if not status then
    local s = a.s
    if ledger.change(e.list, a, t, a.take, n) then
      add_hold(e, a, c)
    else
      a.s, status = s, DENIED
    end
  end
  reply_with(e, a, status or OK, c.deadline or 0, n)
  return after
end

-- keep_record writes the key of a hold that has ended, until its deadline.
local function keep_record(record, hold)
  local ttl = max(1, ceil_div(hold.deadline - t, 1000)) + (server_clock and 0 or DAY)
  redis.call('SET', KEYS[record], pack(ENDED, hold.sum, hold.deadline), 'PX', ttl)
end

local function run_commit(e, a, n, pos)
  local id, flags, record, after = unpack_from(COMMIT_ARGS, runs, pos)
  local i, status = ledger.find(e.list, id), OK
  if i then
    if not has(flags, NO_RECORD) then
      keep_record(record, e.list[i])
    end
    ledger.finish(e.list, a, t, i, n, has(flags, CLIP))
    e.changed = true
  elseif ended_hold(record) then
    status = REPLAYED
  else
    status = UNKNOWN
  end
  reply_with(e, a, status, 0, n)
  return after
end

local function run_extend(e, a, pos)
  local id, ttl, after = unpack_from(EXTEND_ARGS, runs, pos)
  local i = ledger.find(e.list, id)
  if i then
    e.list[i].deadline = t + ttl
    e.next, e.changed = min(e.next, t + ttl), true
  end
  reply_with(e, a, i and OK or UNKNOWN, i and t + ttl or 0, 0)
  return after
end

-- run_adjust executes DEBIT and TAKE_UP_TO.
local function run_adjust(e, a, verb, n)
  if verb == TAKE_UP_TO then
    n = min(n, a.remaining(t))
  end
  ledger.change(e.list, a, t, verb == DEBIT and a.charge or a.take, n)
  reply_with(e, a, OK, n, n)
end

-- skip_log returns the position after a run on a log that another program wrote. The verb
-- is one of holds.
local function skip_log(verb, pos)
  answers[#answers + 1] = pack('<Bd', OK, 0) .. ('\255'):rep(ANSWER_BYTES)
  if verb <= EXTEND then
    local args = {unpack_from(verb == OPEN and OPEN_ARGS or verb == COMMIT and COMMIT_ARGS or EXTEND_ARGS, runs, pos)}
    pos = args[#args]
  end
  return pos
end

-- run executes one run on key k, which has open holds or whose verb is one of holds. It
-- returns the new state, if the key has one, and the position of the next run.
function holds.run(k, rule, s, verb, count, n, pos)
  if k > plain and not logs[k] then
    return nil, skip_log(verb, pos)
  end
  local e, a = begin(k, rule, s)
  e.write = e.write or verb ~= PEEK and verb ~= PEEK_SLOTS
  if verb == OPEN then
    pos = run_open(e, a, n, pos)
  elseif verb == COMMIT then
    pos = run_commit(e, a, n, pos)
  elseif verb == EXTEND then
    pos = run_extend(e, a, pos)
  elseif verb == PEEK_SLOTS then
    local _, fits = a.x.take(a.w, a.s, t, n)
    reply_with(e, a, fits and OK or DENIED, 0, n)
  elseif verb >= DEBIT then
    run_adjust(e, a, verb, n)
  elseif verb == RESET then
    a.s, e.list, e.changed = UNUSED, {}, true
    pos = a.log and run_log(k, rule, verb, count, n, pos) or pos
  elseif a.log then
    pos = run_log(k, rule, verb, count, n, pos)
  else
    local next
    next, pos = run(rule, a.s, verb, count, n, pos)
    if next ~= a.s then
      ledger.change(e.list, a, t, a.set, next)
    end
  end
  return a.s, pos
end

-- load returns the state of key k after the holds that have expired were ended.
function holds.load(k, rule, s)
  local e, a = begin(k, rule, s)
  e.write = mode == ALL
  return a.s
end

-- take is rule.x.take on key k, for units that are available.
function holds.take(k, rule, s, n)
  local e = entry_of(k)
  local a = ledger.account(rule.x, rule.w, s)
  ledger.change(e.list, a, t, a.take, n)
  return a.s
end

-- answer appends the decision about the debit c of slots to the reply.
function holds.answer(c)
  local e = held[c.k] and entry_of(c.k) or {list = {}}
  local a = ledger.account(c.rule.x, c.rule.w, states[c.k])
  answer(e, ledger.answer(e.list, a, t, c.asked, c.fits))
end

-- open_all opens a hold on every key, or on none: if a key denies, if a hold exists
-- already, or if a key has too many.
function holds.open_all()
  local list, ok, total_of, added, replayed = {}, true, {}, {}, false
  while pos <= size do
    local k, r, n, c, _
    k, r, _, _, n, pos = unpack_from(RUN, runs, pos)
    c, pos = open_args(n, pos)
    c.k, c.rule = k, rules[r]
    local log, fits = k > plain and log_of(k), nil
    c.e, c.a = begin(k, c.rule, states[k])
    c.e.write = true
    last_rule[k], states[k] = c.rule, c.a.s
    c.status = check_open(c.e, c, c.max_open - (added[k] or 0))
    if not c.status then
      -- as if the earlier holds of the key had been opened
      added[k], total_of[k] = (added[k] or 0) + 1, (total_of[k] or 0) + n
      c.asked = n > 0 and total_of[k] or 0
      if log then
        fits = log_store.fits(log, c.rule, c.asked)
      else
        _, fits = c.rule.x.take(c.rule.w, c.a.s, t, c.asked)
      end
      c.status = not fits and DENIED or nil
    end
    ok = ok and not c.status
    replayed = replayed or c.status == REPLAYED
    list[#list + 1] = c
  end
  for i = 1, replayed and #list or 0 do
    -- the same request was executed before, and some of its keys have been reset since
    if list[i].status ~= CONFLICT then list[i].status = REPLAYED end
  end
  for i = 1, #list do
    local c = list[i]
    if ok then
      c.a.s = states[c.k]
      ledger.change(c.e.list, c.a, t, c.a.take, c.n)
      add_hold(c.e, c.a, c)
      states[c.k] = c.a.s
    end
    reply_with(c.e, c.a, c.status or OK, c.deadline or 0, c.asked or c.n)
  end
end

-- take_up_to_all takes as many units as remain under every run, but at most the units of
-- the run.
function holds.take_up_to_all()
  local list, runs_of, granted = {}, {}, MAX_EXACT
  while pos <= size do
    local k, r, n, _
    k, r, _, _, n, pos = unpack_from(RUN, runs, pos)
    if k > plain then
      log_of(k)
    end
    local e, a = begin(k, rules[r], states[k])
    e.write, last_rule[k], states[k] = true, rules[r], a.s
    runs_of[k], granted = (runs_of[k] or 0) + 1, min(granted, n)
    list[#list + 1] = {k = k, e = e, a = a}
  end
  for i = 1, #list do
    granted = min(granted, floor(list[i].a.remaining(t) / runs_of[list[i].k]))
  end
  for i = 1, #list do
    local c = list[i]
    c.a.s = states[c.k]
    ledger.change(c.e.list, c.a, t, c.a.take, granted)
    states[c.k] = c.a.s
    reply_with(c.e, c.a, OK, granted, granted)
  end
end

-- encode returns the list of holds as it is stored, and the last deadline.
local function encode(e, by_instant)
  local last, parts = 0, {''}
  e.next = EXACT
  for i = 1, #e.list do
    local hold = e.list[i]
    last, e.next = max(last, hold.deadline), min(e.next, hold.deadline)
    local m = by_instant and hold.charged_at or hold.least
    parts[i + 1] = pack(RECORD, hold.id, hold.sum, hold.units, hold.deadline, m, hold.rest)
  end
  parts[1] = pack(HEAD, e.flags, e.next)
  return concat(parts), last
end

-- encode_log stores the holds of log k in the log. It returns whether the log may be
-- saved; see save.
function holds.encode_log(k)
  local e, log = entries[k], logs[k]
  if not e then
    return true
  elseif not e.write then
    return false
  end
  log.held = nil
  if #e.list > 0 then
    log.held, log.last_deadline = encode(e, true)
  end
  log.changed = log.changed or e.changed
  return true
end

-- base returns the state of key k at the beginning of the script, after the holds that
-- had expired were ended.
function holds.base(k)
  return entry_of(k).base
end

-- save writes key k with the state s if it has open holds. It returns false if it has
-- none; the state is then written as any other. A peek writes nothing: a hold that has
-- expired at its instant may still be open for a later call with an earlier instant.
function holds.save(k, rule, s)
  local e, key = entry_of(k), KEYS[k]
  if not e.write then
    return true
  elseif #e.list == 0 then
    return false
  end
  local list, last = encode(e, rule.x.corrections.by_instant)
  local needed = max(ttl_end(rule.x.reset_at(rule.w, s)), ttl_end(last))
  if e.changed or s ~= e.base then
    redis.call('SET', key, pack(VALUE, HELD, s.a, s.b, s.c, 0) .. list, SET_TTL, before[k] and max(needed, current_ttl(key)) or needed)
  else
    extend_ttl(key, needed)
  end
  return true
end

return holds
