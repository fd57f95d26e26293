-- What algorithms share that count units in one window. b contains the low 30 bits of the
-- count and c its high 23 bits; see windowcount.go. The text of each of these algorithms
-- follows this text.
--
-- It declares the functions of an algorithm in the table counter. The table w that new
-- returns must have limit and two functions: w.at(w, s, t) returns the field a of the
-- window that applies at t, the end of this window and the count in it. w.end_of(w, s)
-- returns the end of the window of s.

local counter = {}

local LOW, HIGH = 1073741824, 8388608 -- 2^30, 2^23

local function count_of(s)
  return s.b + s.c % HIGH * LOW
end

local function count_state(a, count)
  return {a = a, b = count % LOW, c = floor(count / LOW)}
end

-- take allows a request if and only if count + n <= L.
function counter.take(w, s, t, n)
  if n == 0 then
    return s, true
  end
  local a, _, count = w.at(w, s, t)
  if n > w.limit - count then
    return s, false
  end
  return count_state(a, count + n), true
end

-- answer calculates remaining = L − count. retry_after and reset_after both last until
-- the end of the window.
function counter.answer(w, s, t, asked, _, allowed)
  local _, window_end, count = w.at(w, s, t)
  local d = {
    allowed = allowed, never = false, limit = w.limit, remaining = max(0, w.limit - count),
    retry_after = 0, reset_after = 0, delay = 0,
  }
  if count > 0 then
    d.reset_after = window_end - t
  end
  if not allowed and asked > w.limit then
    d.never = true
  elseif not allowed then
    d.retry_after = window_end - t
  end
  return d
end

-- refund decreases the count of the current window by n, but not below 0.
function counter.refund(w, s, t, n)
  local a, _, count = w.at(w, s, t)
  if count == 0 or n == 0 then
    return s
  end
  return count_state(a, count - min(n, count))
end

-- undo decreases the count of the window in which the units were counted. The order of
-- takes does not matter for a count.
function counter.undo(_, s, was, after, _, _, n)
  if same(s, after) then
    return was
  end
  local count = count_of(s)
  if s.a == after.a and count >= n then
    return count_state(s.a, count - n)
  end
  return s
end

-- reset_at returns the end of the window, or 0 if the count is 0.
function counter.reset_at(w, s)
  if count_of(s) == 0 then
    return 0
  end
  return w.end_of(w, s)
end

-- holds returns the functions of holds that these algorithms share; see account.go. Each
-- of them adds correct. The parameter at is that of no_debt.
function counter.holds(at)
  local h = no_debt(at)
  function h.charged_at(_, s)
    return s.a
  end
  function h.lease_end(w, s, t)
    local _, window_end = w.at(w, s, t)
    return window_end
  end

  function h.charge(w, s, t, n)
    if n == 0 then
      return s
    end
    local a, _, count = w.at(w, s, t)
    return count_state(a, min(count + n, MAX_EXACT))
  end

  -- raise makes the count of the window at least n. A calendar does not know the window
  -- of an instant that has passed long ago; see calendarwindow.lua.
  function h.raise(w, s, t, n)
    local a, _, count = w.at(w, s, t)
    if not a or count >= n then
      return s
    end
    return count_state(a, n)
  end
  return h
end
