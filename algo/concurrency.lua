-- Lua implementation of concurrency.go. In the state, b is the number of slots that are
-- taken. The waits of a decision are computed by ledger.answer.

local concurrency = {slots = true}

function concurrency.new(params)
  return {limit = params[1]}
end

-- take allows a request if and only if the slots that are taken, plus n, are at most L.
function concurrency.take(w, s, _, n)
  if n == 0 then
    return s, true
  elseif n > w.limit - s.b then
    return s, false
  end
  return {a = 0, b = s.b + n, c = 0}, true
end

-- answer calculates remaining = L − slots taken. The waits are 0.
function concurrency.answer(w, s, _, asked, _, allowed)
  return {
    allowed = allowed, never = not allowed and asked > w.limit, limit = w.limit,
    remaining = max(0, w.limit - s.b), retry_after = 0, reset_after = 0, delay = 0,
  }
end

-- refund returns s: only the end of a hold makes slots available.
function concurrency.refund(_, s)
  return s
end

local function release(s, n)
  return {a = 0, b = s.b - min(n, s.b), c = 0}
end

-- undo decreases the number of slots that are taken. The order of takes does not matter.
function concurrency.undo(_, s, was, after, _, _, n)
  if same(s, after) then
    return was
  end
  return release(s, n)
end

-- reset_at returns 0: a state without holds is unused.
function concurrency.reset_at()
  return 0
end

-- holds returns the functions that correct charges; see account.go.
function concurrency.holds()
  local h = no_debt()
  function h.charged_at()
    return 0
  end
  -- charge returns s: only a hold takes slots, and slots have no leases.
  function h.charge(_, s)
    return s
  end
  h.raise = h.charge
  function h.correct(_, s, _, _, n)
    return release(s, n)
  end
  return h
end

return concurrency
