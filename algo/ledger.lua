-- Lua implementation of ledger.go and limitchange.go; ledger.go has a worked example. A
-- ledger is a key with open holds. It is a table with these fields:
--
--   s, w, h        the state of the key, the parameters of the limit, and the functions
--                  of its algorithm; see account.go
--   list           the open holds {id, units, charged_at, deadline, least, rest} in the
--                  order in which they began. least and rest are the least debt of the
--                  segment of the hold
--   encoded_count  the number of earlier holds that were not decoded, so that they are
--                  not in the list
--   least, rest    the least debt of the segment of the last hold that was not decoded
--   p, d           the debt that a unit causes under the limit of the latest change
--   changes        the changes of the limit {before, p, d, cut, least, rest}, or nil.
--                  before is the number of holds that were opened before the change
--   leased         the units of all leases. The field kind of a lease is 1, or 2 if it
--                  continues an open lease
--   oldest_leased  a lower bound of charged_at of all leases in a log, or 0 if unknown
--   changed        true if ensure_leased has changed the records or converted the state
--
-- The texts of ledgerdebt.lua and ledgercorrect.lua precede this text.

-- functions returns the functions h for the algorithm x.
function ledger.functions(x)
  x.corrections = x.corrections or x.holds()
  local h = x.corrections
  h.take, h.answer, h.slots = x.take, x.answer, x.slots
  return h
end

-- new returns a ledger without holds, of a key with the state s under a limit w.
function ledger.new(h, w, s)
  return {h = h, w = w, s = s, list = {}, encoded_count = 0, p = 0, d = 0, leased = 0, oldest_leased = 0}
end

-- open adds a hold whose units were just charged at t, and returns it.
function ledger.open(l, t, id, units, deadline)
  local segment, least, rest = current_segment(l), nil, nil
  if not segment then
    l.p, l.d = l.h.unit(l.w)
  end
  if segment and units == 0 then
    least, rest = segment.least, segment.rest -- the state may not have been converted
  else
    least, rest = unleased_debt(l, t)
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

-- set changes the state to next.
function ledger.set(l, t, next)
  if l.encoded_count + #l.list > 0 then
    prepare(l, t)
    l.s = next
    observe(l, t)
  else
    l.s = next
  end
end

-- reset makes the key unused and removes all holds, but not the leases. All holds must be
-- decoded. Call expire before.
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
  spend_leased(l, t)
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

-- charge charges n units, whether or not they are available. With no units, it changes
-- nothing.
function ledger.charge(l, t, n)
  if n == 0 then
    return
  end
  prepare(l, t)
  l.s = l.h.charge(l.w, l.s, t, n)
  observe(l, t)
end

local function remaining(l, t)
  return l.h.answer(l.w, l.s, t, 0, 0, true).remaining
end
ledger.remaining = remaining

-- take_up_to takes n units, or all that remain if fewer do. It returns the number taken.
function ledger.take_up_to(l, t, n)
  n = min(n, remaining(l, t))
  ledger.charge(l, t, n)
  return n
end

-- The line below is replaced by the text of lease.lua.
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
-- charged nothing. All holds must be decoded. It returns whether a record has expired,
-- and the earliest deadline of the others.
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
  local next_deadline = remove_where(l, function(hold)
    return hold.deadline <= t
  end)
  ensure_leased(l, t)
  return #list < before, next_deadline
end

-- finish ends hold i at t with the actual number of units. It corrects a lower number. It
-- charges a higher one if clip is false, and otherwise as many of the further units as
-- remain. If the number of spent units stays the same, the state is not converted to the
-- present limit.
function ledger.finish(l, t, i, actual, clip)
  local held = l.list[i].units
  if l.h.slots then
    actual = 0
  end
  if clip and actual > held then
    actual = held + min(actual - held, remaining(l, t))
  end
  if actual < held then
    local own = l.list[i]
    prepare(l, t)
    correct(l, t, i, function(hold)
      return hold == own and held - actual or 0
    end)
  elseif actual > held then
    prepare(l, t)
  end
  remove(l, i)
  if actual > held then
    l.s = l.h.charge(l.w, l.s, t, actual - held)
    observe(l, t)
  end
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

-- released_by returns the deadline at which expired holds have released n units.
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

-- answer returns the decision on a request for asked units. None of these units are spent
-- after the request. The waits of slots depend on the deadlines; see ledger.go.
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
