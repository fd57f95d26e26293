-- Lua implementation of calendarwindow.go. The text of windowcount.lua precedes this
-- text. In the state, a is the start of the window. The params are the limit, an upper
-- bound on the length of a window, and the boundaries of consecutive windows. Without
-- boundaries, the bound is the length of all windows. A time zone is not needed.

-- window_of returns the window that contains t, or nil if the boundaries do not contain
-- it.
local function window_of(w, t)
  if not w.boundaries then
    local window_begin = t - t % w.longest
    return window_begin, min(window_begin + w.longest, MAX_EXACT)
  end
  for i = 3, #w.boundaries - 1 do
    if w.boundaries[i] <= t and t < w.boundaries[i + 1] then
      return w.boundaries[i], w.boundaries[i + 1]
    end
  end
end

-- end_of returns the end of the window that begins at s.a. If no window begins there, s
-- has another time zone or start, and does not count from s.a on. If the boundaries do
-- not contain s.a, the result is not earlier than the end.
local function end_of(w, s)
  local window_begin, window_end = window_of(w, s.a)
  if window_begin and window_begin ~= s.a then
    return s.a
  end
  return window_end or min(s.a + w.longest, MAX_EXACT)
end

-- at returns the start of the window that applies at t, its end and the count in it. If
-- the window of s begins after t, because the clock went back, s applies until that
-- window ends. A state that begins between the start of the present window and t has
-- another time zone or start.
local function at(w, s, t)
  local count = count_of(s)
  local window_begin, window_end = window_of(w, t)
  if count == 0 or s.a == window_begin then
    return window_begin, window_end, count
  elseif s.a > t then
    return s.a, end_of(w, s), count
  end
  return window_begin, window_end, 0
end

-- new raises an error with the instant if the windows do not contain it. Nothing has been
-- written then, and the caller sends the call again with the windows around the instant.
function counter.new(params, t)
  local w = {limit = params[1], longest = params[2], at = at, end_of = end_of}
  if params[4] then
    w.boundaries = params
  end
  if t and not window_of(w, t) then
    error(('HEADGATE_WINDOW %.0f'):format(t), 0)
  end
  return w
end

local holds = counter.holds

-- holds returns the functions that correct charges; see account.go.
function counter.holds()
  local h = holds()
  -- correct decreases the count if the units were counted in the window of s. It needs no
  -- boundaries around t, which may be a deadline that has passed long ago.
  function h.correct(_, s, _, charged_at, n)
    if charged_at ~= s.a then
      return s
    end
    local count = count_of(s)
    return count_state(s.a, count - min(n, count))
  end
  return h
end

return counter
