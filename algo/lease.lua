-- Lua implementation of lease.go. The text of ledger.lua is around this text.
local leases = {}

-- finish ends lease i at t, of which the given number of units was spent. In a log, all
-- its units are moved to t.
function leases.finish(l, t, i, spent)
  prepare(l, t)
  local h, lease = l.h, l.list[i]
  local unspent, reduction, reduction_rest = lease.units - spent, 0, 0
  remove(l, i)
  if h.is_log then
    l.s = h.correct(l.w, l.s, t, lease.charged_at, lease.units)
    l.s = h.charge(l.w, l.s, t, spent)
  elseif unspent > 0 then
    if l.d > 0 then
      reduction, reduction_rest = times(l, unspent)
    end
    l.s = h.correct(l.w, l.s, t, lease.charged_at, unspent, reduction, reduction_rest)
  end
  observe(l, t)
end

-- expired_leases returns the leases that have expired by t, the earliest deadline first.
-- Of those with the same deadline, the one that was charged last is the first.
local function expired_leases(l, t)
  local expired = {}
  for i = 1, l.leased > 0 and #l.list or 0 do
    if l.list[i].kind and l.list[i].deadline <= t then
      expired[#expired + 1] = l.list[i]
    end
  end
  table.sort(expired, function(a, b)
    return a.deadline < b.deadline or (a.deadline == b.deadline and a.charged_at > b.charged_at)
  end)
  return expired
end

-- end_earliest ends the leases with the deadline of number first in the list expired, and
-- returns the number of the next lease. All units of these leases are spent. Their
-- records stay in the ledger, with no units.
local function end_earliest(l, expired, first)
  local h, deadline, units, i = l.h, expired[first].deadline, 0, first
  local windowed = l.d == 0 and not h.is_log -- the next window can begin at the deadline
  prepare(l, windowed and deadline - 1 or deadline)
  while expired[i] and expired[i].deadline == deadline do
    local lease = expired[i]
    if h.is_log then -- see finish
      l.s = h.correct(l.w, l.s, deadline, lease.charged_at, lease.units)
    end
    units, lease.units, i = units + lease.units, 0, i + 1
  end
  l.leased = l.leased - units
  if h.is_log then
    l.s = h.charge(l.w, l.s, deadline, units)
  end
  observe(l, deadline)
  return i
end

-- expire ends the leases that have expired by t, the earliest deadline first. It removes
-- their records in one pass.
function leases.expire(l, t)
  local expired, first = expired_leases(l, t), 1
  while expired[first] do
    first = end_earliest(l, expired, first)
  end
  if first > 1 then
    remove_where(l, function(lease)
      return lease.kind and lease.deadline <= t
    end)
  end
end

-- apply ends the lease c.previous, of which c.spent units were spent, and begins the
-- lease c.id. Either may be nil. It returns the units of the new lease, its deadline,
-- and whether the other lease was open. It returns nil if that had fewer than c.spent
-- units.
function leases.apply(l, t, c)
  local known = c.id and l.list[ledger.find(l, c.id)]
  if known then
    return known.units, known.deadline, known.kind == 2
  end
  local i, unspent = c.previous and ledger.find(l, c.previous), 0
  if i and not l.list[i].kind then
    i = nil
  elseif i then
    unspent = l.list[i].units - c.spent
    if unspent < 0 or c.spent < 0 then
      return nil
    end
    leases.finish(l, t, i, c.spent)
  end
  local previous_open = i ~= nil and i ~= false
  if not c.id then
    return 0, 0, previous_open
  end
  local room = min(c.max - l.leased, remaining(l, t)) - unspent
  if l.encoded_count + #l.list >= c.max_open then
    room = 0
  end
  local units = unspent + max(0, min(c.want, room))
  if units == 0 then
    return 0, 0, previous_open
  end
  local deadline = min(t + c.ttl, l.h.lease_end(l.w, l.s, t))
  prepare(l, t)
  l.s = l.h.charge(l.w, l.s, t, units)
  l.leased = l.leased + units
  local lease = ledger.open(l, t, c.id, units, deadline)
  lease.kind = previous_open and 2 or 1
  l.oldest_leased = min(l.oldest_leased, lease.charged_at)
  return units, deadline, previous_open
end

return leases
