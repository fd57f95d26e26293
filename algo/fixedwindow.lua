-- Lua implementation of fixedwindow.go. The text of windowcount.lua precedes this text.
-- In the state, a is the end of the window.

-- ends_at returns the end of the window that contains a, the end of a window with
-- another period. The count of that other window remains valid until then.
local function ends_at(w, s)
  return ceil_div(s.a, w.period) * w.period
end

-- at returns the end of the window of t, twice, and the count in it. If s is the state of
-- a later window, because the clock went back or the period became shorter, s applies
-- until that window ends. A window with a count of 0 is unused.
local function at(w, s, t)
  local window_end, count = t - t % w.period + w.period, count_of(s)
  if count == 0 or s.a <= window_end - w.period then
    return window_end, window_end, 0
  elseif s.a <= window_end then
    return window_end, window_end, count
  end
  window_end = ends_at(w, s)
  return window_end, window_end, count
end

function counter.new(params)
  return {limit = params[1], period = params[2], at = at, end_of = ends_at}
end

local holds = counter.holds

-- holds returns the functions that correct charges; see account.go.
function counter.holds()
  local h = holds(function(w, s, t)
    local window_end, _, count = at(w, s, t)
    return count_state(window_end, count)
  end)
  -- recount returns the end of the window to which adopt moves the count, if it contains
  -- the units.
  function h.recount(w, s, t, charged_at)
    local window_end, _, count = at(w, s, t)
    if count == 0 or charged_at ~= s.a then
      return 0
    end
    return window_end
  end
  -- correct decreases the count if the units were counted in the present window.
  function h.correct(w, s, t, charged_at, n)
    local window_end, _, count = at(w, s, t)
    if count == 0 or charged_at ~= s.a then
      return s
    end
    return count_state(window_end, count - min(n, count))
  end
  return h
end

return counter
