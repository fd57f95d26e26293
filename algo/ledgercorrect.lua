-- Corrections of a ledger: a charge is reduced as if fewer units had been charged when
-- the hold was opened, and the hold is removed.

-- change_after returns the index of the first change after hold i was opened.
local function change_after(l, i)
  local c = 1
  while l.changes and l.changes[c] and l.changes[c].before < l.encoded_count + i do
    c = c + 1
  end
  return c
end

-- unit_before returns a table with p and d of the holds that were opened before change c.
local function unit_before(l, c)
  return l.changes and l.changes[c] or l
end

-- carry_reduction converts the reduction of the debt before the change c to that after
-- it; see limitchange.go.
local function carry_reduction(c, reduction, denominator)
  local cut, rest = min(c.cut, reduction), 0
  c.cut = c.cut - cut
  reduction = reduction - cut
  if less(c.least, c.rest, reduction, 0) then
    reduction, rest = c.least, c.rest
  end
  reduce_least(c, reduction, rest, denominator)
  return reduction, rest
end

-- correct_debts corrects the least debts of all segments from that of hold first on. It
-- returns the reduction: the debt by which the state is too high. See ledger.go.
local function correct_debts(l, first, refund)
  local list, c, reduction, rest = l.list, change_after(l, first), 0, 0
  local unit = unit_before(l, c)
  for i = first, #list do
    local hold, change = list[i], l.changes and l.changes[c]
    local n = refund(hold)
    if n > 0 then
      local debt, fraction = times(unit, n)
      reduction, rest = reduction + debt, rest + fraction
      if rest >= unit.d then
        reduction, rest = reduction + 1, rest - unit.d
      end
    end
    if less(hold.least, hold.rest, reduction, rest) then
      reduction, rest = hold.least, hold.rest
    end
    reduce_least(hold, reduction, rest, unit.d)
    if change and change.before == l.encoded_count + i then
      c = c + 1
      unit = unit_before(l, c)
      reduction, rest = carry_reduction(change, reduction, unit.d)
    end
  end
  return reduction, rest
end

-- correct changes the state as if fewer units had been charged when each hold from first
-- on began: refund(hold) returns how many units fewer. See ledger.go.
local function correct(l, t, first, refund)
  local list, h = l.list, l.h
  if l.d > 0 then
    local reduction, rest = correct_debts(l, first, refund)
    l.s = h.correct(l.w, l.s, t, 0, 0, reduction, rest)
  else
    for i = #list, first, -1 do
      local n = refund(list[i])
      if n > 0 then
        l.s = h.correct(l.w, l.s, t, list[i].charged_at, n)
      end
    end
  end
  ensure_leased(l, t)
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
    before = change and change.before == l.encoded_count + i - 1 and change or before
  end
  if before then
    lower_least(before, hold.least, hold.rest)
  end
  for j = i, #list do
    list[j] = list[j + 1]
  end
  if l.changes then
    remove_from_changes(l, i)
  end
end

-- remove_where removes the holds for which ended returns true in one pass, as remove
-- does. It returns the earliest deadline of the others. All holds must be decoded.
local function remove_where(l, ended)
  local list, changes, total = l.list, l.changes or {}, #l.list
  local count, next_deadline, c, segment = 0, EXACT, 1, nil
  l.changes = nil
  for i = 1, total do
    local hold = list[i]
    list[i] = nil
    if not ended(hold) then
      count, segment, next_deadline = count + 1, hold, min(next_deadline, hold.deadline)
      list[count] = hold
    elseif segment then
      lower_least(segment, hold.least, hold.rest)
    end
    if changes[c] and changes[c].before == i then
      append_change(l, count, changes[c])
      segment = l.changes and l.changes[#l.changes] or segment
      c = c + 1
    end
  end
  return next_deadline
end

