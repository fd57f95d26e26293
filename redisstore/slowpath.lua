-- The slow path executes the remaining runs, from the run at pos on.

-- mark_at decodes a state in the arguments of a run. It also returns the position after
-- it.
local function mark_at(pos)
  local _, a, b, c, after = unpack_from(STATE, runs, pos)
  return {a = a, b = b, c = c}, after
end

-- run executes one run on a plain state and returns the new state. It also returns the
-- position of the next run.
local function run(rule, s, verb, count, n, pos)
  local x, w = rule.x, rule.w
  if verb == TAKE then
    return take_times(x, w, s, n, count), pos
  elseif verb == REFUND then
    return x.refund(w, s, t, n), pos
  elseif verb == RESET then
    return UNUSED, pos
  elseif verb == RESERVE then
    local max_delay, after = unpack_from('<d', runs, pos)
    return x.reserve(w, s, t, n, max_delay), after
  elseif verb == CANCEL then
    local mark, after = mark_at(pos)
    return x.cancel(w, s, mark, t, n), after
  elseif verb == UNDO then
    keep_ttl = true
    local was, after_it, t0
    was, pos = mark_at(pos)
    after_it, pos = mark_at(pos)
    t0, pos = unpack_from('<d', runs, pos)
    return x.undo(w, s, was, after_it, t0, t, n), pos
  end
  return s, pos
end

-- log_of returns the log of key k, or false if the value was written by another program.
-- MGET returns nothing for a log that is a hash; see log_store.open.
local values = log_count > 0 and read_values(plain + 1, state_count)
local function log_of(k)
  if logs[k] == nil then
    logs[k] = log_store.open(KEYS[k], values[k - plain]) or false
  end
  return logs[k]
end

local ANSWER, ANSWER_BYTES = '<BBddd', 26

-- answer appends a decision about a log or slots to the reply. The second byte has a bit
-- for a log with open holds.
local function answer(log, d)
  local flags = (d.never and 1 or 0) + (log.held and 2 or 0)
  answers[#answers + 1] = pack(ANSWER, d.allowed and 1 or 0, flags, d.remaining, d.retry_after, d.reset_after)
end

-- run_log_takes takes n units count times. The takes that are allowed are executed as
-- one take of the sum. It appends the number of allowed takes, the decision about the
-- last allowed take (if any), and the decision about the first denied take (if any) to
-- the reply.
local function run_log_takes(log, rule, count, n)
  local free = log_store.answer(log, rule, 0, true).remaining
  local fit = count
  if n > 0 then
    fit = min(count, floor(free / n))
  end
  if fit > 0 and n > 0 then
    log_store.take(log, rule, fit * n)
  end
  answers[#answers + 1] = pack('<d', fit)
  if fit > 0 then
    answer(log, log_store.answer(log, rule, n, true))
  end
  if fit < count then
    answer(log, log_store.answer(log, rule, n, false))
  end
end

-- run_log executes one run on a log. It also returns the position of the next run.
local function run_log(k, rule, verb, count, n, pos)
  local log, mark = log_of(k), nil
  if verb == UNDO then
    keep_ttl = true
    mark, pos = unpack_from('<d', runs, pos)
  end
  if not log then
    answers[#answers + 1] = verb == TAKE and pack('<d', -1) or ('\255'):rep(ANSWER_BYTES)
    return pos
  elseif verb == TAKE then
    run_log_takes(log, rule, count, n)
    return pos
  elseif verb == REFUND then
    log_store.refund(log, rule, n)
  elseif verb == RESET then
    log_store.reset(log)
  elseif verb == UNDO then
    log_store.undo(log, rule, mark, n)
  end
  if verb ~= PEEK then
    n = 0
  end
  answer(log, log_store.answer(log, rule, n, log_store.fits(log, rule, n)))
  return pos
end

-- holds returns the functions for keys with open holds. They are created when they are
-- first needed.
local holds_made
--HOLDS
local function holds()
  holds_made = holds_made or make_holds()
  return holds_made
end

-- run_each executes the runs one after another, each independently.
local function run_each()
  while pos <= size do
    local k, r, verb, count, n, _
    k, r, verb, count, n, pos = unpack_from(RUN, runs, pos)
    local rule = rules[r]
    if k <= plain or verb ~= PEEK then
      last_rule[k] = rule
    end
    local log = k > plain and log_of(k)
    if k > plain and verb < OPEN and not (log and log.held) then
      pos = run_log(k, rule, verb, count, n, pos)
    elseif k > plain then
      _, pos = holds().run(k, rule, nil, verb, count, n, pos)
    elseif held[k] or verb >= OPEN then
      if not held[k] then
        held[k] = ''
      end
      holds_made = holds_made or make_holds()
      states[k], pos = holds_made.run(k, rule, states[k], verb, count, n, pos)
    else
      states[k], pos = run(rule, states[k], verb, count, n, pos)
    end
  end
end

-- read_debits decodes the runs as debits and checks each debit as if the earlier ones
-- had been taken. It returns the debits, and whether all are allowed.
local function read_debits()
  local list, total_of, ok = {}, {}, true
  while pos <= size do
    local k, r, n, _
    k, r, _, _, n, pos = unpack_from(RUN, runs, pos)
    local c = {k = k, rule = rules[r], n = n, asked = n}
    total_of[k] = (total_of[k] or 0) + n
    if n > 0 then
      c.asked = total_of[k]
    end
    last_rule[k] = last_rule[k] or c.rule
    if held[k] then
      states[k] = holds().ledgers().load(k, c.rule, states[k], mode == ALL)
    end
    if k > plain then
      local log = log_of(k)
      if log.held then
        holds().ledgers().load(k, c.rule, nil, mode == ALL)
      end
      c.fits = log_store.fits(log, c.rule, c.asked)
    else
      _, c.fits = c.rule.x.take(c.rule.w, states[k], t, c.asked)
    end
    ok = ok and c.fits
    list[#list + 1] = c
  end
  return list, ok
end

-- apply_debits takes all debits, which are allowed together.
local function apply_debits(list)
  for i = 1, #list do
    local c = list[i]
    local k, rule = c.k, c.rule
    if k <= plain then
      local take = held[k] and holds().ledgers().take
      states[k] = take and take(k, rule, states[k], c.n) or rule.x.take(rule.w, states[k], t, c.n)
      last_rule[k] = rule
    else
      log_store.take(log_of(k), rule, c.n)
    end
  end
end

-- run_all takes all runs, or none if one is denied.
local function run_all()
  local list, ok = read_debits()
  local spent = ok and mode == ALL
  if spent then
    apply_debits(list)
  end
  for i = 1, #list do
    local c = list[i]
    if c.k > plain then
      answer(log_of(c.k), log_store.answer(log_of(c.k), c.rule, spent and c.n or c.asked, spent or c.fits))
    elseif c.rule.x.slots then
      holds().ledgers().answer(c)
    end
  end
end

if mode == EACH then
  run_each()
elseif mode >= OPEN_ALL then
  for k = 1, plain do
    held[k] = held[k] or ''
  end
  if mode == OPEN_ALL then
    holds().ledgers().open_all()
  else
    holds().ledgers().take_up_to_all()
  end
else
  run_all()
end
holds_of = holds_made
for k = plain + 1, state_count do
  local used = logs[k] and last_rule[k] and mode ~= PEEK_ALL -- a peek may use another limit
  if used and (not holds_made or holds_made.encode_log(k)) then
    log_store.save(logs[k], last_rule[k])
  end
end
