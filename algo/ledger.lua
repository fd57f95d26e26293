-- Lua implementation of ledger.go, limitchange.go and account.go. A ledger is a key with
-- open holds. It is a table with these fields:
--
--   s        the state of the key
--   w, h     the parameters of the limit, and the result of functions for its algorithm
--   list     the open holds {id, units, charged_at, deadline, least, rest} in the order
--            in which they began; least and rest are a debt
--   kept     the number of earlier holds that are not in the list, or 0. least and rest
--            are then the debt of the last of them
--   p, d     what a unit costs under the limit of the latest change
--   changes  the changes of the limit {before, p, d, cut, least, rest}, or nil
--   leased   the units of all leases, whose field kind is 1, or 2 if it was carried
--   oldest   a lower bound of charged_at of all leases in a log, or 0 if it is unknown
--   changed  true if raise has changed the records or converted the state

local ledger = {}

local function less(a, a_rest, b, b_rest)
  return a < b or (a == b and a_rest < b_rest)
end

-- functions returns the functions h for the algorithm x.
function ledger.functions(x)
  x.corrections = x.corrections or x.holds()
  local h = x.corrections
  h.take, h.answer, h.slots = x.take, x.answer, x.slots
  return h
end

-- new returns a ledger without holds, of a key with the state s under a limit w.
function ledger.new(h, w, s)
  return {h = h, w = w, s = s, list = {}, kept = 0, p = 0, d = 0, leased = 0, oldest = 0}
end

-- newest returns the newest segment, or nil if no hold is open.
local function newest(l)
  local list, changes = l.list, l.changes
  if changes and changes[#changes].before == l.kept + #list then
    return changes[#changes]
  end
  return list[#list] or l.kept > 0 and l or nil
end

-- lower reduces the least debt of a segment to debt and rest, if that is lower.
local function lower(segment, debt, rest)
  if less(debt, rest, segment.least, segment.rest) then
    segment.least, segment.rest = debt, rest
  end
end

-- subtract subtracts by and by_rest from the least debt of a segment. d is the
-- denominator.
local function subtract(segment, by, by_rest, d)
  segment.least, segment.rest = segment.least - by, segment.rest - by_rest
  if segment.rest < 0 then
    segment.least, segment.rest = segment.least - 1, segment.rest + d
  end
end

-- debt_of returns the debt without that of the units on lease.
local function debt_of(l, t)
  local debt, rest = l.h.debt(l.w, l.s, t)
  if l.leased == 0 or l.d == 0 then
    return debt, rest
  end
  local leased = {}
  leased.least, leased.rest = times(l, l.leased)
  if less(debt, rest, leased.least, leased.rest) then
    return 0, 0
  end
  local own = {least = debt, rest = rest}
  subtract(own, leased.least, leased.rest, l.d)
  return own.least, own.rest
end

-- note updates the least debt of the newest segment, unless the algorithm has no debts.
local function note(l, t)
  local segment = l.d > 0 and newest(l)
  if segment then
    lower(segment, debt_of(l, t))
  end
end

-- merge_changes merges change i with the one before if no open hold was opened between
-- them.
local function merge_changes(l, i)
  local c, later = l.changes[i - 1], l.changes[i]
  if not c or not later or c.before ~= later.before then
    return
  end
  c.least, c.rest = max(0, c.least - later.cut), 0
  lower(c, later.least, later.rest)
  c.cut = c.cut + later.cut
  table.remove(l.changes, i)
end

-- append_change adds the change c, which follows the given number of open holds, if there
-- is an open hold.
local function append_change(l, before, c)
  if before > 0 then
    l.changes = l.changes or {}
    c.before, l.changes[#l.changes + 1] = before, c
    merge_changes(l, #l.changes)
  end
end

-- adopt converts the state to the present limit, and records the change of the limit.
local function adopt(l, t)
  local list, h, w = l.list, l.h, l.w
  if l.kept + #list == 0 then
    return
  end
  local p, d = h.unit(w)
  if p ~= l.p or d ~= l.d then
    for i = 1, #list do
      list[i].charged_at = h.recount(w, l.s, t, list[i].charged_at, l.p)
    end
  end
  local s, cut, changed = h.adopt(w, l.s, t, l.p, l.d, l.leased)
  local from_p, from_d = l.p, l.d
  l.changed = l.changed or changed or (l.leased > 0 and (p ~= from_p or d ~= from_d))
  l.s, l.p, l.d = s, p, d
  if changed and from_d > 0 then
    local least, rest = debt_of(l, t)
    append_change(l, l.kept + #list, {p = from_p, d = from_d, cut = cut, least = least, rest = rest})
  end
end

-- charge_again charges the open leases again at t whose units no longer count in the log,
-- or all leases; see lease.go.
local function charge_again(l, t, all)
  local list, h = l.list, l.h
  l.oldest = EXACT
  for i = 1, #list do
    local lease = list[i]
    if lease.kind and lease.units > 0 then
      if all or not h.counts(l.w, t, lease.charged_at) then
        l.s = h.charge(l.w, l.s, t, lease.units)
        lease.charged_at, l.changed = h.charged_at(l.w, l.s), true
      end
      l.oldest = min(l.oldest, lease.charged_at)
    end
  end
end

-- charge_log charges leases again at t whose units have aged out, or all leases if fewer
-- units count than are on lease; see lease.go.
local function charge_log(l, t)
  local h = l.h
  if h.counts(l.w, t, l.oldest) and h.counted(l.w, l.s, t) >= l.leased then
    return
  end
  charge_again(l, t, false)
  if h.counted(l.w, l.s, t) < l.leased then
    l.s = h.clear(l.s)
    charge_again(l, t, true)
  end
end

-- charge is raise on a state that was converted to the present limit.
local function charge(l, t)
  if l.h.is_log then
    charge_log(l, t)
  elseif l.leased > 0 then
    local raised = l.h.raise(l.w, l.s, t, l.leased)
    l.changed = l.changed or (l.d == 0 and raised ~= l.s) -- a bucket refills; a count does not
    l.s = raised
  end
end

-- raise makes at least the units on lease count at t.
local function raise(l, t)
  if l.leased > 0 then
    note(l, t)
    adopt(l, t)
    charge(l, t)
  end
end
ledger.raise = raise

-- observe is called after every change at t.
local function observe(l, t)
  raise(l, t)
  note(l, t)
end

local function prepare(l, t)
  observe(l, t)
  adopt(l, t)
end

-- set changes the state to next.
function ledger.set(l, t, next)
  if l.kept + #l.list > 0 then
    prepare(l, t)
    l.s = next
    observe(l, t)
  else
    l.s = next
  end
end

-- reset makes the key unused and removes all holds, but not the leases. No hold may be
-- kept. Call expire before.
function ledger.reset(l, t)
  local list, count = l.list, 0
  for i = 1, #list do
    local lease = list[i].kind and list[i]
    list[i] = nil
    if lease then
      count, lease.least, lease.rest = count + 1, 0, 0
      list[count] = lease
    end
  end
  l.changes = nil
  l.p, l.d = l.h.unit(l.w)
  l.s = l.h.is_log and l.h.clear(l.s) or {a = 0, b = 0, c = 0}
  charge(l, t)
end

-- take takes n units if they are available, and returns whether they were. A denial
-- changes nothing.
function ledger.take(l, t, n)
  local next, ok = l.h.take(l.w, l.s, t, n)
  if ok and next ~= l.s then
    ledger.set(l, t, next)
  end
  return ok
end

-- charge charges n units, whether or not they are available.
function ledger.charge(l, t, n)
  prepare(l, t)
  l.s = l.h.charge(l.w, l.s, t, n)
  observe(l, t)
end

local function remaining(l, t)
  return l.h.answer(l.w, l.s, t, 0, 0, true).remaining
end
ledger.remaining = remaining

-- take_up_to takes n units, of which at most the remaining ones. It returns their number.
function ledger.take_up_to(l, t, n)
  prepare(l, t)
  n = min(n, remaining(l, t))
  l.s = l.h.take(l.w, l.s, t, n)
  observe(l, t)
  return n
end

-- change_after returns the index of the first change after hold i was opened.
local function change_after(l, i)
  local c = 1
  while l.changes and l.changes[c] and l.changes[c].before < l.kept + i do
    c = c + 1
  end
  return c
end

-- unit_before returns a table with p and d of the holds that were opened before change c.
local function unit_before(l, c)
  return l.changes and l.changes[c] or l
end

-- cross returns what is left of a debt after the change c, by which the state before it
-- is too high. d is the denominator after the change.
local function cross(c, by, d)
  local cut = min(c.cut, by)
  c.cut = c.cut - cut
  by = by - cut
  local rest = 0
  if less(c.least, c.rest, by, 0) then
    by, rest = c.least, c.rest
  end
  subtract(c, by, rest, d)
  return by, rest
end

-- correct_debts corrects the least debts of all segments from that of hold first on. It
-- returns the debt by which the state is too high. See correct.
local function correct_debts(l, first, refund)
  local list, c, by, rest = l.list, change_after(l, first), 0, 0
  local unit = unit_before(l, c)
  for i = first, #list do
    local hold, change = list[i], l.changes and l.changes[c]
    local n = refund(hold)
    if n > 0 then
      local debt, fraction = times(unit, n)
      by, rest = by + debt, rest + fraction
      if rest >= unit.d then
        by, rest = by + 1, rest - unit.d
      end
    end
    if less(hold.least, hold.rest, by, rest) then
      by, rest = hold.least, hold.rest
    end
    subtract(hold, by, rest, unit.d)
    if change and change.before == l.kept + i then
      c = c + 1
      unit = unit_before(l, c)
      by, rest = cross(change, by, unit.d)
    end
  end
  return by, rest
end

-- correct changes the state as if fewer units had been charged when each hold from first
-- on began: refund(hold) returns how many units fewer. See ledger.go.
local function correct(l, t, first, refund)
  local list, h = l.list, l.h
  if l.d > 0 then
    local by, rest = correct_debts(l, first, refund)
    l.s = h.correct(l.w, l.s, t, 0, 0, by, rest)
  else
    for i = #list, first, -1 do
      local n = refund(list[i])
      if n > 0 then
        l.s = h.correct(l.w, l.s, t, list[i].charged_at, n)
      end
    end
  end
  raise(l, t)
end

-- remove_from_changes updates the changes after hold i was removed.
local function remove_from_changes(l, i)
  local first, changes = change_after(l, i), l.changes
  for c = first, #changes do
    changes[c].before = changes[c].before - 1
  end
  if changes[1].before == 0 then
    table.remove(changes, 1)
  else
    merge_changes(l, first)
  end
  if #changes == 0 then
    l.changes = nil
  end
end

-- remove removes hold i. Its segment becomes part of the segment before.
local function remove(l, i)
  local list = l.list
  local hold, before = list[i], list[i - 1]
  if hold.kind then
    l.leased = l.leased - hold.units
  end
  if before and l.changes then
    local change = l.changes[change_after(l, i - 1)]
    before = change and change.before == l.kept + i - 1 and change or before
  end
  if before then
    lower(before, hold.least, hold.rest)
  end
  for j = i, #list do
    list[j] = list[j + 1]
  end
  if l.changes then
    remove_from_changes(l, i)
  end
end

-- open adds a hold whose units were just charged at t, and returns it.
function ledger.open(l, t, id, units, deadline)
  local segment, least, rest = newest(l), nil, nil
  if not segment then
    l.p, l.d = l.h.unit(l.w)
  end
  if segment and units == 0 then
    least, rest = segment.least, segment.rest -- the state may not have been converted
  else
    least, rest = debt_of(l, t)
  end
  local hold = {id = id, units = units, charged_at = l.h.charged_at(l.w, l.s), deadline = deadline, least = least, rest = rest}
  l.list[#l.list + 1] = hold
  return hold
end

-- find returns the index of the hold with the id, or nil.
function ledger.find(l, id)
  local list = l.list
  for i = 1, #list do
    if list[i].id == id then
      return i
    end
  end
end

-- remove_where removes the holds for which ended returns true in one pass, as remove does.
-- It returns the earliest deadline of the others. No hold may be kept.
local function remove_where(l, ended)
  local list, changes, total, count, next, c = l.list, l.changes or {}, #l.list, 0, EXACT, 1
  local segment
  l.changes = nil
  for i = 1, total do
    local hold = list[i]
    list[i] = nil
    if not ended(hold) then
      count, segment, next = count + 1, hold, min(next, hold.deadline)
      list[count] = hold
    elseif segment then
      lower(segment, hold.least, hold.rest)
    end
    if changes[c] and changes[c].before == i then
      append_change(l, count, changes[c])
      segment = l.changes and l.changes[#l.changes] or segment
      c = c + 1
    end
  end
  return next
end

--LEASES

local function has_expired(list, t)
  for i = 1, #list do
    if list[i].deadline <= t then
      return true
    end
  end
end

-- expire ends the records that have expired by t: first the leases, whose units stay
-- spent, then the holds. If release is true, the holds are corrected as if they had
-- charged nothing. No hold may be kept. It returns whether a record has expired, and the
-- earliest deadline of the others.
function ledger.expire(l, t, release)
  local list, before = l.list, #l.list
  if l.leased > 0 then
    leases().expire(l, t)
  end
  if release and has_expired(list, t) then
    prepare(l, t)
    correct(l, t, 1, function(hold)
      return hold.deadline <= t and hold.units or 0
    end)
  end
  local next = remove_where(l, function(hold)
    return hold.deadline <= t
  end)
  raise(l, t)
  return #list < before, next
end

-- finish ends hold i at t with the actual number of units. It corrects a lower number. It
-- charges a higher one if clip is false, and otherwise as many of the further units as
-- remain.
function ledger.finish(l, t, i, actual, clip)
  local held = l.list[i].units
  prepare(l, t)
  if l.h.slots then
    actual = 0
  end
  if actual <= held then
    local own = l.list[i]
    if actual < held then
      correct(l, t, i, function(hold)
        return hold == own and held - actual or 0
      end)
    end
    remove(l, i)
    return
  end
  remove(l, i)
  if clip then
    l.s = l.h.take(l.w, l.s, t, min(actual - held, remaining(l, t)))
  else
    l.s = l.h.charge(l.w, l.s, t, actual - held)
  end
  observe(l, t)
end

-- last_release returns the last deadline of a hold with units, or 0.
local function last_release(list)
  local last = 0
  for i = 1, #list do
    if list[i].units > 0 then
      last = max(last, list[i].deadline)
    end
  end
  return last
end

-- released_by returns the first instant at which the holds that have expired have n
-- units.
local function released_by(list, n)
  local sorted, at = {}, 0
  for i = 1, #list do
    sorted[i] = list[i]
  end
  table.sort(sorted, function(one, other) return one.deadline < other.deadline end)
  for i = 1, #sorted do
    if n <= 0 then
      break
    end
    n, at = n - sorted[i].units, sorted[i].deadline
  end
  return at
end

-- answer returns the decision on a request for asked units, of which none are spent after
-- it. The waits of slots depend on the deadlines; see ledger.go.
function ledger.answer(l, t, asked, allowed)
  local d = l.h.answer(l.w, l.s, t, asked, 0, allowed)
  if not l.h.slots then
    return d
  end
  d.reset_after = max(0, last_release(l.list) - t)
  if not allowed and not d.never then
    d.retry_after = released_by(l.list, asked - (l.w.limit - l.s.b)) - t
  end
  return d
end

return ledger
