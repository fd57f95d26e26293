-- Lua implementation of slidingwindow.go. State: a, the end of the current window; b,
-- prev, the count of the previous window; c, cur, the count of the current one.

local sliding_window = {}

function sliding_window.new(terms)
  return {limit = terms[1], period = terms[2]}
end

-- ends_at returns the end of the window that contains the end of a window of another
-- period. What was counted in the other window counts until then.
local function ends_at(w, a)
  return ceil_div(a, w.period) * w.period
end

-- at returns the state in the window of t. A state of a later window (the clock went
-- back, or the period became shorter) applies until its window ends. A window without
-- counted units is unused.
local function at(w, s, t)
  local window_end = t - t % w.period + w.period
  if (s.b == 0 and s.c == 0) or s.a <= window_end - 2 * w.period then
    return {a = window_end, b = 0, c = 0}
  elseif s.a <= window_end - w.period then
    return {a = window_end, b = s.c, c = 0}
  elseif s.a <= window_end then
    return {a = window_end, b = s.b, c = s.c}
  end
  return {a = ends_at(w, s.a), b = s.b, c = s.c}
end

-- free returns floor(L − E) for a state in the window of t. It is negative if a lowered
-- limit is exceeded.
local function free(w, s, t)
  local left = min(s.a - t, w.period) -- P − e; at most P if the clock went back
  return w.limit - s.c - mul_div_ceil(s.b, left, w.period)
end

-- admits_at returns the first instant at which E + n <= L, for n <= L that is denied
-- now. In this window that requires prev·(P−e) <= (L−cur−n)·P. In the next window,
-- where cur becomes prev, it requires cur·(P−e) <= (L−n)·P.
local function admits_at(w, s, n)
  if s.c + n <= w.limit then
    local left = mul_div(w.limit - s.c - n, w.period, s.b)
    return s.a - left
  end
  local left = mul_div(w.limit - n, w.period, s.c)
  return s.a + w.period - left
end

-- take allows iff E + n <= L, exactly: a fraction is not a unit.
function sliding_window.take(w, s, t, n)
  if n == 0 then
    return s, true
  end
  local now = at(w, s, t)
  if n > free(w, now, t) then
    return s, false
  end
  now.c = now.c + n
  return now, true
end

-- answer calculates remaining = floor(L − E), at least 0.
function sliding_window.answer(w, s, t, asked, _, allowed)
  s = at(w, s, t)
  local d = {
    allowed = allowed, never = false, limit = w.limit, remaining = max(0, free(w, s, t)),
    retry_after = 0, reset_after = max(0, sliding_window.reset_at(w, s) - t), delay = 0,
  }
  if not allowed and asked > w.limit then
    d.never = true
  elseif not allowed then
    d.retry_after = admits_at(w, s, asked) - t
  end
  return d
end

-- refund decreases cur first, then prev, to at least 0.
function sliding_window.refund(w, s, t, n)
  local now = at(w, s, t)
  if n == 0 or (now.b == 0 and now.c == 0) then
    return s
  end
  local from_cur = min(n, now.c)
  now.c = now.c - from_cur
  now.b = now.b - min(n - from_cur, now.b)
  return now
end

-- undo decreases the count of the window in which the units were counted: cur or, one
-- window later, prev. Counts do not depend on their order.
function sliding_window.undo(w, s, was, after, _, _, n)
  if same(s, after) then
    return was
  elseif s.a == after.a and s.c >= n then
    return {a = s.a, b = s.b, c = s.c - n}
  elseif s.a == after.a + w.period and s.b >= n then
    return {a = s.a, b = s.b - n, c = s.c}
  end
  return s
end

-- reset_at returns the end of the next window if cur > 0, and the end of the current
-- one if only prev > 0.
function sliding_window.reset_at(w, s)
  if s.c > 0 then
    return ends_at(w, s.a) + w.period
  elseif s.b > 0 then
    return ends_at(w, s.a)
  end
  return 0
end

return sliding_window
