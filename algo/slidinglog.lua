-- Lua implementation of slidinglog.go. State: a list of {at, units}, oldest first, with
-- different instants. take (if it allows) and refund change the list: they remove the
-- oldest entries that have aged out, and then append an entry or change or remove the
-- newest. undo changes or removes any entry. fits and answer change nothing, because a
-- peek may be followed by a request at an earlier instant.

local sliding_log = {}

function sliding_log.new(terms)
  return {limit = terms[1], period = terms[2]}
end

-- since returns how many entries have instants up to and including before, how many
-- units they have, and how many units later entries have.
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

-- age removes the entries with instants up to and including before.
local function age(log, before)
  local aged = since(log, before)
  if aged == 0 then
    return
  end
  for i = 1, #log do
    log[i] = log[i + aged]
  end
end

-- add adds n units at t, but never before the newest entry.
local function add(log, t, n, room)
  local newest = log[#log]
  if newest and (t <= newest.at or not room) then
    newest.at = max(t, newest.at)
    newest.units = newest.units + n
    return
  end
  log[#log + 1] = {at = t, units = n}
end

-- spent_by returns the instant by which the first n units were spent.
local function spent_by(log, n)
  local i = 0
  repeat
    i = i + 1
    n = n - log[i].units
  until n <= 0
  return log[i].at
end

-- take allows iff counted + n <= L. Without room for one more entry the units are added
-- to the newest entry, whose instant then moves up to t.
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

-- fits is the condition of take: counted + n <= L.
function sliding_log.fits(w, log, t, n)
  local _, _, counted = since(log, t - w.period)
  return n == 0 or n <= w.limit - counted
end

-- answer calculates retry_after until enough of the oldest entries have aged out, and
-- reset_after until the newest entry has.
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

-- refund removes units of the newest entries first.
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

-- undo removes n units from the entry of the instant at, if it has that many.
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

-- reset_at returns when the newest entry has aged out.
function sliding_log.reset_at(w, log)
  if #log == 0 then
    return 0
  end
  return log[#log].at + w.period
end

return sliding_log
