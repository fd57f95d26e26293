-- Lua implementation of madeup.go. In the state, a is the end of the window, and b is the
-- count in it.

local counter = {}

function counter.new(terms)
  return {limit = terms[1], period = terms[2], half = floor(terms[2] / 2)}
end

-- ends_at returns the end of the first window that ends at a or later.
local function ends_at(w, a)
  return ceil_div(a + w.half, w.period) * w.period - w.half
end

-- at returns the state in the window of t. A later window is kept until it ends.
local function at(w, s, t)
  local shifted = t + w.half
  local window_end = t - shifted % w.period + w.period
  if s.b == 0 or s.a <= window_end - w.period then
    return {a = window_end, b = 0, c = 0}
  elseif s.a <= window_end then
    return {a = window_end, b = s.b, c = 0}
  end
  return {a = ends_at(w, s.a), b = s.b, c = 0}
end

function counter.take(w, s, t, n)
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

function counter.answer(w, s, t, asked, _, allowed)
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

function counter.refund(w, s, t, n)
  local now = at(w, s, t)
  if now.b == 0 or n == 0 then
    return s
  end
  now.b = now.b - min(n, now.b)
  return now
end

function counter.undo(_, s, was, after, _, _, n)
  if same(s, after) then
    return was
  elseif s.a == after.a and s.b >= n then
    return {a = s.a, b = s.b - n, c = s.c}
  end
  return s
end

function counter.reset_at(w, s)
  if s.b == 0 then
    return 0
  end
  return ends_at(w, s.a)
end

return counter
