-- The twin of slidinglog.go. State: a list of {at, units}, oldest first, of which no two have the same instant. take, when it admits,
-- and refund change the list that they are given: they drop entries in front that have aged out, and then add one at the end, or
-- change or drop entries there; undo changes or drops one anywhere. Whoever only asks changes nothing, since he may ask about an earlier instant next.

local sliding_log = {}

function sliding_log.new(terms)
  return {limit = terms[1], period = terms[2]}
end

-- since is how many entries the log holds of instants up to and including before, how many units they have, and how many units
-- later ones have.
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

-- age drops the entries of instants up to and including before.
local function age(log, before)
  local aged = since(log, before)
  if aged == 0 then
    return
  end
  for i = 1, #log do
    log[i] = log[i + aged]
  end
end

-- add enters n units at t, but never before the newest entry.
local function add(log, t, n, room)
  local newest = log[#log]
  if newest and (t <= newest.at or not room) then
    newest.at = max(t, newest.at)
    newest.units = newest.units + n
    return
  end
  log[#log + 1] = {at = t, units = n}
end

-- spent_by is the instant by which the first n units were spent.
local function spent_by(log, n)
  local i = 0
  repeat
    i = i + 1
    n = n - log[i].units
  until n <= 0
  return log[i].at
end

-- take admits iff counted + n <= L. Without room for one more entry the units are counted with the newest, whose instant then
-- moves up to t.
function sliding_log.take(w, log, t, n, room)
  if n == 0 then
    return true
  end
  if not sliding_log.fits(w, log, t, n) then
    return false
  end
  age(log, t - w.period)
  add(log, t, n, room)
  return true
end

-- fits is the test of take: counted + n <= L.
function sliding_log.fits(w, log, t, n)
  local _, _, counted = since(log, t - w.period)
  return n == 0 or n <= w.limit - counted
end

-- answer has retry_after until enough of the oldest have aged out, and reset_after until the newest has.
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

-- refund takes the newest entries first.
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

-- undo takes n units out of the entry of that instant, wherever it stands, if it has as many.
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

-- reset_at is when the newest entry has aged out.
function sliding_log.reset_at(w, log)
  if #log == 0 then
    return 0
  end
  return log[#log].at + w.period
end

return sliding_log
