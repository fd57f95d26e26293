-- Lua implementation of ledger.go and account.go. A ledger is a list of open holds {id,
-- units, charged_at, deadline, least, rest} in the order in which they began; least and
-- rest are a debt. An account has the state of the key in the field s.

local ledger = {}

local function less(a, a_rest, b, b_rest)
  return a < b or (a == b and a_rest < b_rest)
end

-- account returns the account of a key with the state s, under a limit w of the algorithm
-- x.
function ledger.account(x, w, s)
  x.corrections = x.corrections or x.holds()
  local a, h = {s = s, x = x, w = w, slots = x.slots}, x.corrections
  a.d = h.denominator(w)
  function a.adopt(t)
    local converted
    a.s, converted = h.adopt(w, a.s, t)
    return converted
  end
  function a.take(t, n)
    local ok
    a.s, ok = x.take(w, a.s, t, n)
    return ok
  end
  function a.charge(t, n)
    a.s = h.charge(w, a.s, t, n)
  end
  function a.set(_, s)
    a.s = s
  end
  function a.remaining(t)
    return x.answer(w, a.s, t, 0, 0, true).remaining
  end
  function a.charged_at()
    return h.charged_at(w, a.s)
  end
  function a.debt(t)
    return h.debt(w, a.s, t)
  end
  function a.debt_of(n)
    return h.debt_of(w, n)
  end
  function a.correct(t, charged_at, n, least, rest)
    a.s = h.correct(w, a.s, t, charged_at, n, least, rest)
  end
  return a
end

-- observe updates the least debt of the newest segment.
local function observe(list, a, t)
  local hold = list[#list]
  if hold then
    local debt, rest = a.debt(t)
    if less(debt, rest, hold.least, hold.rest) then
      hold.least, hold.rest = debt, rest
    end
  end
end

-- adopt converts the state to the present limit. Fractions of a µs in the debts were in
-- units of the previous limit, so they are rounded down.
local function adopt(list, a, t)
  if #list == 0 or not a.adopt(t) then
    return
  end
  for i = 1, #list do
    list[i].rest = 0
  end
end

-- correct changes the state as if n units fewer had been charged when hold i began, and
-- the least debts of all segments since then. See ledger.go.
local function correct(list, a, i, t, n)
  observe(list, a, t)
  if n == 0 then
    return
  end
  local amount, amount_rest = a.debt_of(n)
  local first = list[i]
  local least, rest, start, start_rest = first.least, first.rest, first.least, first.rest
  for j = i, #list do
    local hold = list[j]
    if less(hold.least, hold.rest, least, rest) then
      least, rest = hold.least, hold.rest
    end
    local by, by_rest = amount, amount_rest
    if less(least, rest, by, by_rest) then
      by, by_rest = least, rest
    end
    hold.least, hold.rest = hold.least - by, hold.rest - by_rest
    if hold.rest < 0 then
      hold.least, hold.rest = hold.least - 1, hold.rest + a.d
    end
  end
  a.correct(t, first.charged_at, n, least, rest)
end

-- remove removes hold i. Its segment becomes part of the segment before.
local function remove(list, i)
  local hold, before = list[i], list[i - 1]
  if before and less(hold.least, hold.rest, before.least, before.rest) then
    before.least, before.rest = hold.least, hold.rest
  end
  for j = i, #list do
    list[j] = list[j + 1]
  end
end

-- expire ends the holds that have expired by t, the earliest deadline first. If release
-- is true, each of them is corrected as if it had been cancelled at its deadline. It
-- returns whether a hold has expired.
function ledger.expire(list, a, t, release)
  local expired = false
  while true do
    local first
    for i = 1, #list do
      if list[i].deadline <= t and (not first or list[i].deadline < list[first].deadline) then
        first = i
      end
    end
    if not first then
      return expired
    end
    expired = true
    local hold = list[first]
    if release then
      adopt(list, a, hold.deadline)
      correct(list, a, first, hold.deadline, hold.units)
    end
    remove(list, first)
  end
end

-- change calls method, a method of the account that changes it at t. It returns the
-- result of the method.
function ledger.change(list, a, t, method, n)
  adopt(list, a, t)
  observe(list, a, t)
  local result = method(t, n)
  observe(list, a, t)
  return result
end

-- open adds a hold whose units were just charged at t.
function ledger.open(list, a, t, id, units, deadline)
  local least, rest = a.debt(t)
  list[#list + 1] = {id = id, units = units, charged_at = a.charged_at(), deadline = deadline, least = least, rest = rest}
end

-- find returns the index of the hold with the id, or nil.
function ledger.find(list, id)
  for i = 1, #list do
    if list[i].id == id then
      return i
    end
  end
end

-- finish ends hold i at t with the actual number of units. It corrects a lower number. It
-- charges a higher one if clip is false, and otherwise as many of the further units as
-- remain.
function ledger.finish(list, a, t, i, actual, clip)
  adopt(list, a, t)
  local held = list[i].units
  if a.slots then
    actual = 0
  end
  if actual <= held then
    correct(list, a, i, t, held - actual)
    remove(list, i)
    return
  end
  observe(list, a, t)
  remove(list, i)
  if clip then
    a.take(t, min(actual - held, a.remaining(t)))
  else
    a.charge(t, actual - held)
  end
  observe(list, a, t)
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
function ledger.answer(list, a, t, asked, allowed)
  local d = a.x.answer(a.w, a.s, t, asked, 0, allowed)
  if not a.slots then
    return d
  end
  d.reset_after = max(0, last_release(list) - t)
  if not allowed and not d.never then
    d.retry_after = released_by(list, asked - (a.w.limit - a.s.b)) - t
  end
  return d
end

return ledger
