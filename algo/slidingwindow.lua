-- The twin of slidingwindow.go. State: a, the end of the current window; b, prev, the count of the one before it; c, cur, its own
-- count.

local sliding_window = {}

function sliding_window.new(terms)
  return {limit = terms[1], period = terms[2]}
end

-- ends_at is the end of the window in which one of another period ended: what was counted there stays until then.
local function ends_at(w, a)
  return ceil_div(a, w.period) * w.period
end

-- at is the state in the window of t. A later window than that (the clock went back, or the period became shorter) stays in
-- force until it ends; one in which nothing is counted was never used.
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

-- free is floor(L − E) for a state in the window of t; it is negative when a lowered limit is exceeded.
local function free(w, s, t)
  local left = min(s.a - t, w.period) -- P − e; no more than P when the clock went back
  return w.limit - s.c - mul_div_ceil(s.b, left, w.period)
end

-- admits_at is the first instant at which E + n <= L, for n <= L that is denied now. In this window that needs prev·(P−e) <=
-- (L−cur−n)·P; in the next, where cur becomes prev, cur·(P−e) <= (L−n)·P.
local function admits_at(w, s, n)
  if s.c + n <= w.limit then
    local left = mul_div(w.limit - s.c - n, w.period, s.b)
    return s.a - left
  end
  local left = mul_div(w.limit - n, w.period, s.c)
  return s.a + w.period - left
end

-- take admits iff E + n <= L, exactly: a fraction does not buy a unit.
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

-- answer has remaining = floor(L − E), not below 0.
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

-- refund lowers cur first, then prev, not below 0.
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

-- undo lowers the count of the window in which the units were counted, be it cur or, one window on, prev: counts do not depend on
-- their order.
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

-- reset_at is the end of the window after the current one if cur > 0, that of the current one if only prev > 0.
function sliding_window.reset_at(w, s)
  if s.c > 0 then
    return ends_at(w, s.a) + w.period
  elseif s.b > 0 then
    return ends_at(w, s.a)
  end
  return 0
end

return sliding_window
