-- What is left, from the run at pos on: what is not just takes and peeks at plain states.

-- mark reads a state behind a run's own numbers.
local function mark_at(pos)
  local _, a, b, c, after = unpack_from(STATE, runs, pos)
  return {a = a, b = b, c = c}, after
end

-- run is one verb on a plain state; it also says where the next run begins.
local function run(rule, s, verb, count, n, pos)
  local x, w = rule.x, rule.w
  if verb == TAKE then
    return take_times(x, w, s, n, count), pos
  elseif verb == REFUND then
    return x.refund(w, s, t, n), pos
  elseif verb == RESET then
    return NEVER_USED, pos
  elseif verb == RESERVE then
    local max_delay, after = unpack_from('<d', runs, pos)
    return x.reserve(w, s, t, n, max_delay), after
  elseif verb == CANCEL then
    local mark, after = mark_at(pos)
    return x.cancel(w, s, mark, t, n), after
  elseif verb == UNDO then
    local was, after_it, t0
    was, pos = mark_at(pos)
    after_it, pos = mark_at(pos)
    t0, pos = unpack_from('<d', runs, pos)
    return x.undo(w, s, was, after_it, t0, t, n), pos
  end
  return s, pos
end

-- log_of is the log of a key, read when it is first needed; nothing if it is foreign.
local function log_of(k)
  local log = logs[k]
  if not log then
    log = on.open(KEYS[k])
    logs[k] = log
  end
  return log
end

local ANSWER, ANSWER_BYTES = '<BBddd', 26

local function answer(d)
  answers[#answers + 1] = pack(ANSWER, d.allowed and 1 or 0, d.never and 1 or 0, d.remaining, d.retry_after, d.reset_after)
end

-- change does fn to a log, which is then read anew by whoever needs it next.
local function change(k, fn, ...)
  fn(log_of(k), ...)
  logs[k] = nil
end

-- take_log takes so many times n: as costs add up, all that fit at once. It answers how many those were, then the last of them if
-- there is one, and the first that was denied if there is one.
local function take_log(k, rule, count, n)
  local free = on.answer(log_of(k), rule, 0, true).remaining
  local fit = count
  if n > 0 then
    fit = min(count, floor(free / n))
  end
  if fit > 0 and n > 0 then
    change(k, on.take, rule, fit * n)
  end
  answers[#answers + 1] = pack('<d', fit)
  if fit > 0 then
    answer(on.answer(log_of(k), rule, n, true))
  end
  if fit < count then
    answer(on.answer(log_of(k), rule, n, false))
  end
end

-- run_log is one verb on a log; it also says where the next run begins.
local function run_log(k, rule, verb, count, n, pos)
  local log, mark
  if verb == UNDO then
    mark, pos = unpack_from('<d', runs, pos)
  end
  if not log_of(k) then
    answers[#answers + 1] = verb == TAKE and pack('<d', -1) or ('\255'):rep(ANSWER_BYTES)
    return pos
  elseif verb == TAKE then
    take_log(k, rule, count, n)
    return pos
  elseif verb == REFUND then
    change(k, on.refund, rule, n)
  elseif verb == RESET then
    change(k, on.reset)
  elseif verb == UNDO then
    change(k, on.undo, rule, mark, n)
  end
  if verb ~= PEEK then
    n = 0
  end
  log = log_of(k)
  answer(on.answer(log, rule, n, on.fits(log, rule, n)))
  return pos
end

-- each runs one after another.
local function each()
  while pos <= size do
    local k, r, verb, count, n
    k, r, verb, count, n, pos = unpack_from(RUN, runs, pos)
    local rule = rules[r]
    if k <= plain or verb ~= PEEK then
      last_rule[k] = rule
    end
    if k > plain then
      pos = run_log(k, rule, verb, count, n, pos)
    else
      states[k], pos = run(rule, states[k], verb, count, n, pos)
    end
  end
end

-- charges reads the runs as charges that are taken all or none, and says whether all fit: each as if it came after those before it.
local function charges()
  local list, asked_of, ok = {}, {}, true
  while pos <= size do
    local k, r, n, _
    k, r, _, _, n, pos = unpack_from(RUN, runs, pos)
    local c = {k = k, rule = rules[r], n = n, asked = n}
    asked_of[k] = (asked_of[k] or 0) + n
    if n > 0 then
      c.asked = asked_of[k]
    end
    last_rule[k] = last_rule[k] or c.rule
    if k > plain then
      local log = log_of(k)
      c.fits = on.fits(log, c.rule, c.asked)
    else
      _, c.fits = c.rule.x.take(c.rule.w, states[k], t, c.asked)
    end
    ok = ok and c.fits
    list[#list + 1] = c
  end
  return list, ok
end

-- settle takes what was admitted. A denial leaves what a changed limit carries over, and nothing else.
local function settle(list, ok)
  for i = 1, #list do
    local c = list[i]
    local k, rule, n = c.k, c.rule, c.n
    if not ok then
      rule, n = last_rule[k], 0
    end
    if k <= plain then
      states[k] = rule.x.take(rule.w, states[k], t, n)
      last_rule[k] = rule
    elseif ok then
      change(k, on.take, rule, n)
    end
  end
end

-- all takes every run or none.
local function all()
  local list, ok = charges()
  if mode == ALL then
    settle(list, ok)
  end
  local spent = ok and mode == ALL
  for i = 1, #list do
    local c = list[i]
    if c.k > plain then
      answer(on.answer(log_of(c.k), c.rule, spent and c.n or c.asked, spent or c.fits))
    end
  end
end

if mode == EACH then
  each()
else
  all()
end
for k = plain + 1, #KEYS do
  if logs[k] and last_rule[k] and mode ~= PEEK_ALL then -- whoever only asks changes no life: his limit may be another
    on.close(logs[k], last_rule[k])
  end
end
on.delete_gone()
