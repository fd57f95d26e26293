-- Lua implementation of slidingwindow.go. In the state, a is the end of the current
-- window, b is prev, the count of the previous window, and c is cur, the count of the
-- current window.

local sliding_window = {}

function sliding_window.new(params)
  return {limit = params[1], period = params[2]}
end

-- ends_at returns the end of the window that contains a, the end of a window with
-- another period. The count of that other window remains valid until then.
local function ends_at(w, a)
  return ceil_div(a, w.period) * w.period
end

-- at returns the state in the window of t. If s is the state of a later window, because
-- the clock went back or the period became shorter, s applies until that window ends. A
-- window with counts of 0 is unused.
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

-- free returns floor(L − E), the number of units that can be spent at t. s must be the
-- state in the window of t. The result is negative if more units were spent than a
-- lowered limit allows.
local function free(w, s, t)
  local left = min(s.a - t, w.period) -- P − e; at most P if the clock went back
  return w.limit - s.c - mul_div_ceil(s.b, left, w.period)
end

-- admits_at returns the first instant at which E + n <= L. n must be at most L and is
-- denied now. In the current window, the condition is prev·(P−e) <= (L−cur−n)·P. In the
-- next window, where cur becomes prev, it is cur·(P−e) <= (L−n)·P.
local function admits_at(w, s, n)
  if s.c + n <= w.limit then
    local left = mul_div(w.limit - s.c - n, w.period, s.b)
    return s.a - left
  end
  local left = mul_div(w.limit - n, w.period, s.c)
  return s.a + w.period - left
end

-- take allows a request if and only if E + n <= L. E is not rounded.
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

-- refund decreases cur and then prev, by n units in total, but not below 0.
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

-- undo decreases the count of the window in which the units were counted: cur, or prev
-- if one window has passed. The order of takes does not matter for a count.
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

-- reset_at returns the end of the next window if cur > 0, the end of the current window
-- if only prev > 0, and 0 if both are 0.
function sliding_window.reset_at(w, s)
  if s.c > 0 then
    return ends_at(w, s.a) + w.period
  elseif s.b > 0 then
    return ends_at(w, s.a)
  end
  return 0
end

-- holds returns the functions that correct charges; see account.go.
function sliding_window.holds()
  local h = no_debt(at)
  function h.charged_at(_, s)
    return s.a
  end
  function h.charge(w, s, t, n)
    if n == 0 then
      return s
    end
    local now = at(w, s, t)
    now.c = min(now.c + n, MAX_COUNT)
    return now
  end
  -- recount returns the end of the window to which adopt moves the units, or 0. s has the
  -- units in cur if they were counted in the window that ends at s.a, and in prev if they
  -- were counted in the one before.
  function h.recount(w, s, t, charged_at, period)
    local now, passed = at(w, s, t), s.a <= t - t % w.period
    if now.b == 0 and now.c == 0 then
      return 0
    elseif charged_at == s.a then
      return passed and now.a - w.period or now.a
    elseif charged_at == s.a - period and not passed then
      return now.a - w.period
    end
    return 0
  end
  function h.lease_end(w, s, t)
    return at(w, s, t).a
  end
  function h.raise(w, s, t, n)
    local now = at(w, s, t)
    if now.c >= n then
      return s
    end
    now.c = min(n, MAX_COUNT)
    return now
  end

  -- correct decreases the count of the window in which the units were counted: cur, prev,
  -- or none if more than one window has passed.
  function h.correct(w, s, t, charged_at, n)
    local now = at(w, s, t)
    if now.b == 0 and now.c == 0 then
      return s
    elseif charged_at == now.a then
      now.c = now.c - min(n, now.c)
    elseif charged_at == now.a - w.period then
      now.b = now.b - min(n, now.b)
    end
    return now
  end
  return h
end

return sliding_window
