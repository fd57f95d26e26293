-- Lua implementation of slidinglog.go. The state is a list of {at, units}, oldest
-- first, with different instants. take (if it allows) and refund remove the oldest
-- entries that have aged out, and then append an entry, or change or remove the newest
-- entries. undo changes or removes any entry. fits and answer do not modify the list,
-- because after a peek there may be a request at an earlier instant.

local sliding_log = {}

function sliding_log.new(params)
  return {limit = params[1], period = params[2]}
end

-- since returns the number of entries that are not later than the parameter before, the
-- number of their units, and the number of units of all later entries.
local function since(log, before)
  local entries, aged, counted = 0, 0, 0
  for i = 1, #log do
    if log[i].at <= before then
      entries, aged = i, aged + log[i].units
    else
      counted = counted + log[i].units
    end
  end
  return entries, aged, counted
end

-- age removes the entries whose instants are not later than the parameter before.
local function age(log, before)
  local aged = since(log, before)
  if aged == 0 then
    return
  end
  for i = 1, #log do
    log[i] = log[i + aged]
  end
end

-- add adds n units at t, or to the newest entry if that is not before t or if room is
-- false.
local function add(log, t, n, room)
  local newest = log[#log]
  if newest and (t <= newest.at or not room) then
    newest.at = max(t, newest.at)
    newest.units = newest.units + n
    return
  end
  log[#log + 1] = {at = t, units = n}
end

-- spent_by returns the instant at which the n-th of the units in the log was spent.
local function spent_by(log, n)
  local i = 0
  repeat
    i = i + 1
    n = n - log[i].units
  until n <= 0
  return log[i].at
end

-- take allows a request if and only if counted + n <= L. If room is false, it does not
-- add an entry: it adds the units to the newest entry and moves that entry's instant up
-- to t.
function sliding_log.take(w, log, t, n, room)
  if n == 0 then
    return true
  end
  if not sliding_log.fits(w, log, t, n) then
    return false
  end
  sliding_log.charge(w, log, t, n, room)
  return true
end

-- charge spends n units, whether or not they are available.
function sliding_log.charge(w, log, t, n, room)
  age(log, t - w.period)
  add(log, t, n, room)
end

-- fits returns whether take would allow the request: counted + n <= L.
function sliding_log.fits(w, log, t, n)
  local _, _, counted = since(log, t - w.period)
  return n == 0 or n <= w.limit - counted
end

-- answer calculates retry_after, the wait until enough of the oldest units have aged
-- out, and reset_after, the wait until the newest entry has aged out.
function sliding_log.answer(w, log, t, asked, allowed)
  local _, aged, counted = since(log, t - w.period)
  local d = {
    allowed = allowed, never = false, limit = w.limit, remaining = max(0, w.limit - counted),
    retry_after = 0, reset_after = 0, delay = 0,
  }
  if counted > 0 then
    d.reset_after = log[#log].at + w.period - t
  end
  if not allowed and asked > w.limit then
    d.never = true
  elseif not allowed then
    d.retry_after = spent_by(log, aged + counted + asked - w.limit) + w.period - t
  end
  return d
end

-- refund removes n units, beginning with the newest entry.
function sliding_log.refund(w, log, t, n)
  if n == 0 then
    return
  end
  age(log, t - w.period)
  while n > 0 and #log > 0 do
    local newest = log[#log]
    if newest.units > n then
      newest.units = newest.units - n
      return
    end
    n = n - newest.units
    log[#log] = nil
  end
end

-- undo removes n units from the entry with this instant. It does nothing if there is no
-- such entry with at least n units.
function sliding_log.undo(_, log, instant, n)
  local i = #log
  while i > 0 and log[i].at > instant do
    i = i - 1
  end
  local entry = log[i]
  if not entry or entry.at ~= instant or entry.units < n then
    return
  end
  entry.units = entry.units - n
  if entry.units == 0 then
    for j = i, #log do
      log[j] = log[j + 1]
    end
  end
end

-- reset_at returns the instant at which the newest entry has aged out.
function sliding_log.reset_at(w, log)
  if #log == 0 then
    return 0
  end
  return log[#log].at + w.period
end

return sliding_log
