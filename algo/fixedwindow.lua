-- Lua implementation of fixedwindow.go. In the state, a is the end of the window and b
-- the count of the window.

local fixed_window = {}

function fixed_window.new(terms)
  return {limit = terms[1], period = terms[2]}
end

-- ends_at returns the end of the window that contains a, the end of a window with
-- another period. The count of that other window remains valid until then.
local function ends_at(w, a)
  return ceil_div(a, w.period) * w.period
end

-- at returns the state in the window of t. If s is the state of a later window, because
-- the clock went back or the period became shorter, s applies until that window ends. A
-- window with a count of 0 is unused.
local function at(w, s, t)
  local window_end = t - t % w.period + w.period
  if s.b == 0 or s.a <= window_end - w.period then
    return {a = window_end, b = 0, c = 0}
  elseif s.a <= window_end then
    return {a = window_end, b = s.b, c = 0}
  end
  return {a = ends_at(w, s.a), b = s.b, c = 0}
end

-- take allows a request if and only if count + n <= L.
function fixed_window.take(w, s, t, n)
  if n == 0 then
    return s, true
  end
  local now = at(w, s, t)
  if n > w.limit - now.b then
    return s, false
  end
  now.b = now.b + n
  return now, true
end

-- answer calculates remaining = L − count. retry_after and reset_after both last until
-- the end of the window.
function fixed_window.answer(w, s, t, asked, _, allowed)
  s = at(w, s, t)
  local d = {
    allowed = allowed, never = false, limit = w.limit, remaining = max(0, w.limit - s.b),
    retry_after = 0, reset_after = 0, delay = 0,
  }
  if s.b > 0 then
    d.reset_after = s.a - t
  end
  if not allowed and asked > w.limit then
    d.never = true
  elseif not allowed then
    d.retry_after = s.a - t
  end
  return d
end

-- refund decreases the count of the current window by n, but not below 0.
function fixed_window.refund(w, s, t, n)
  local now = at(w, s, t)
  if now.b == 0 or n == 0 then
    return s
  end
  now.b = now.b - min(n, now.b)
  return now
end

-- undo decreases the count of the window in which the units were counted. The order of
-- takes does not matter for a count.
function fixed_window.undo(_, s, was, after, _, _, n)
  if same(s, after) then
    return was
  elseif s.a == after.a and s.b >= n then
    return {a = s.a, b = s.b - n, c = s.c}
  end
  return s
end

-- reset_at returns the end of the window, or 0 if the count is 0.
function fixed_window.reset_at(w, s)
  if s.b == 0 then
    return 0
  end
  return ends_at(w, s.a)
end

return fixed_window
