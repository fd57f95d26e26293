-- Lua implementation of lease.go. ledger.lua is around this text.
local leases = {}

-- finish ends lease i at t, of which the given number of units was spent. In a log, all
-- its units are moved to t.
function leases.finish(l, t, i, spent)
  prepare(l, t)
  local h, lease = l.h, l.list[i]
  local rest, by, by_rest = lease.units - spent, 0, 0
  remove(l, i)
  if h.is_log then
    l.s = h.correct(l.w, l.s, t, lease.charged_at, lease.units)
    l.s = h.charge(l.w, l.s, t, spent)
  elseif rest > 0 then
    if l.d > 0 then
      by, by_rest = times(l, rest)
    end
    l.s = h.correct(l.w, l.s, t, lease.charged_at, rest, by, by_rest)
  end
  observe(l, t)
end

-- expire ends the leases that have expired by t, the earliest deadline first.
function leases.expire(l, t)
  while l.leased > 0 do
    local list, first = l.list, nil
    for i = 1, #list do
      if list[i].kind and list[i].deadline <= t and not (first and list[first].deadline <= list[i].deadline) then
        first = i
      end
    end
    if not first then
      return
    end
    local deadline = list[first].deadline
    if l.d == 0 and not l.h.is_log then -- the window that ends then
      adopt(l, deadline - 1)
      l.s = l.h.raise(l.w, l.s, deadline - 1, l.leased)
    end
    leases.finish(l, deadline, first, list[first].units)
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
  local i, rest = c.previous and ledger.find(l, c.previous), 0
  if i and not l.list[i].kind then
    i = nil
  elseif i then
    rest = l.list[i].units - c.spent
    if rest < 0 or c.spent < 0 then
      return nil
    end
    leases.finish(l, t, i, c.spent)
  end
  local carried = i ~= nil and i ~= false
  if not c.id then
    return 0, 0, carried
  end
  local room = min(c.max - l.leased, remaining(l, t)) - rest
  if l.kept + #l.list >= c.max_open then
    room = 0
  end
  local units = rest + max(0, min(c.want, room))
  if units == 0 then
    return 0, 0, carried
  end
  local deadline = min(t + c.ttl, l.h.lease_end(l.w, l.s, t))
  prepare(l, t)
  l.s = l.h.charge(l.w, l.s, t, units)
  l.leased = l.leased + units
  local lease = ledger.open(l, t, c.id, units, deadline)
  lease.kind = carried and 2 or 1
  return units, deadline, carried
end

return leases
