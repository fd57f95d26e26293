-- The debts of a ledger: the least debt of each segment, the changes of the limit, and
-- the units on lease. ledger.lua documents the fields of a ledger l.
local ledger = {}

local function less(a, a_rest, b, b_rest)
  return a < b or (a == b and a_rest < b_rest)
end

-- current_segment returns the current segment, or nil if no hold is open.
local function current_segment(l)
  local list, changes = l.list, l.changes
  if changes and changes[#changes].before == l.encoded_count + #list then
    return changes[#changes]
  end
  return list[#list] or l.encoded_count > 0 and l or nil
end

-- lower_least reduces the least debt of a segment to debt and rest, if that is lower.
local function lower_least(segment, debt, rest)
  if less(debt, rest, segment.least, segment.rest) then
    segment.least, segment.rest = debt, rest
  end
end

-- reduce_least reduces the least debt of a segment. denominator is that of the rest.
local function reduce_least(segment, reduction, reduction_rest, denominator)
  segment.least, segment.rest = segment.least - reduction, segment.rest - reduction_rest
  if segment.rest < 0 then
    segment.least, segment.rest = segment.least - 1, segment.rest + denominator
  end
end

-- unleased_debt returns the debt without that of the units on lease.
local function unleased_debt(l, t)
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
  reduce_least(own, leased.least, leased.rest, l.d)
  return own.least, own.rest
end

-- record_debt updates the least debt of the current segment, unless the algorithm has no
-- debts.
local function record_debt(l, t)
  local segment = l.d > 0 and current_segment(l)
  if segment then
    lower_least(segment, unleased_debt(l, t))
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
  lower_least(c, later.least, later.rest)
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
  if l.encoded_count + #list == 0 then
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
    local least, rest = unleased_debt(l, t)
    append_change(l, l.encoded_count + #list, {p = from_p, d = from_d, cut = cut, least = least, rest = rest})
  end
end

-- charge_again charges the open leases again at t whose units no longer count in the log,
-- or all leases; see lease.go.
local function charge_again(l, t, all)
  local list, h = l.list, l.h
  l.oldest_leased = EXACT
  for i = 1, #list do
    local lease = list[i]
    if lease.kind and lease.units > 0 then
      if all or not h.counts(l.w, t, lease.charged_at) then
        l.s = h.charge(l.w, l.s, t, lease.units)
        lease.charged_at, l.changed = h.charged_at(l.w, l.s), true
      end
      l.oldest_leased = min(l.oldest_leased, lease.charged_at)
    end
  end
end

-- spend_leased_in_log charges leases again at t whose units have aged out, or all leases
-- if fewer units count than are on lease; see lease.go.
local function spend_leased_in_log(l, t)
  local h = l.h
  if h.counts(l.w, t, l.oldest_leased) and h.counted(l.w, l.s, t) >= l.leased then
    return
  end
  charge_again(l, t, false)
  if h.counted(l.w, l.s, t) < l.leased then
    l.s = h.clear(l.s)
    charge_again(l, t, true)
  end
end

-- spend_leased is ensure_leased in a state that was converted to the present limit.
local function spend_leased(l, t)
  if l.h.is_log then
    spend_leased_in_log(l, t)
  elseif l.leased > 0 then
    local raised = l.h.raise(l.w, l.s, t, l.leased)
    l.changed = l.changed or (l.d == 0 and raised ~= l.s) -- a bucket refills; a count does not
    l.s = raised
  end
end

-- ensure_leased makes at least the units on lease spent at t.
local function ensure_leased(l, t)
  if l.leased > 0 then
    record_debt(l, t)
    adopt(l, t)
    spend_leased(l, t)
  end
end
ledger.ensure_leased = ensure_leased

-- observe is called after every change at t.
local function observe(l, t)
  ensure_leased(l, t)
  record_debt(l, t)
end

local function prepare(l, t)
  observe(l, t)
  adopt(l, t)
end

