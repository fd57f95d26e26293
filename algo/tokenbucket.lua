-- Lua implementation of tokenbucket.go; leakybucket.lua uses it. In the state, a is TAT
-- in whole µs, b the remainder in units of 1/d µs, and c the fingerprint of the limit.

local bucket = {}

-- new gives the parameters names: T = p/d µs in lowest terms, unit = T and full = B·T.
-- unit and full are whole µs with a remainder in units of 1/d µs.
function bucket.new(params)
  return {
    burst = params[1], p = params[2], d = params[3],
    unit = params[4], unit_r = params[5],
    full = params[6], full_r = params[7],
    fingerprint = params[8], leaky = false,
  }
end

-- units_in returns (whole + r/d)/T, the number of units that refill in whole + r/d µs,
-- rounded up. The result must be below 2^53.
local function units_in(f, whole, r)
  local q, rest = mul_div(f.d, whole, f.p)
  return q + ceil_div(rest + r, f.p)
end

-- carry_over converts the state of another limit: it keeps TAT, rounds a fraction of a
-- µs up, and reduces TAT to t + B·T if it is later.
local function carry_over(b, s, t)
  if s.c == b.fingerprint then
    return s
  end
  local a, r = s.a, 0
  if s.b > 0 then
    a = a + 1
  end
  if a > t + b.full then
    a, r = t + b.full, b.full_r
  end
  return {a = a, b = r, c = b.fingerprint}
end

-- advance calculates TAT after n further units were spent, whether or not they are
-- available. It returns the number of µs by which TAT exceeds t + full, which may be
-- negative, and a remainder in units of 1/d µs. TAT itself could exceed 2^53 after the
-- clock went back.
local function advance(b, s, t, n)
  local ahead, rest = s.a - t, s.b
  if ahead < 0 then
    ahead, rest = 0, 0
  end
  local whole, r = b.unit, b.unit_r
  if n ~= 1 then
    whole, r = times(b, n)
  end
  local past = ahead - b.full + whole
  r = rest + r
  if r >= b.d then
    past, r = past + 1, r - b.d
  end
  return past, r
end

-- state_at returns the state with the TAT that advance calculated.
local function state_at(b, t, past, r)
  return {a = t + b.full + past, b = r, c = b.fingerprint}
end

-- wait returns the number of µs, rounded up, until the TAT that advance calculated is
-- at most t + B·T.
local function wait(b, past, r)
  if r > b.full_r then
    past = past + 1
  end
  return max(0, past)
end

-- delay returns the number of µs, rounded up, after which the n units that were just
-- spent may proceed: TAT − n·T − t.
local function delay(b, s, t, n)
  local whole, r = times(b, n)
  local d = s.a - t - whole
  if s.b > r then
    d = d + 1
  end
  return max(0, d)
end

local function remaining(b, s, t)
  if s.a < t then
    return b.burst
  end
  if s.a - t > b.full then
    return 0
  end
  return max(0, b.burst - units_in(b, s.a - t, s.b))
end

-- back makes TAT earlier by whole + r/d µs, but not earlier than t.
local function back(b, s, t, whole, r)
  local a = s.a - whole
  r = s.b - r
  if r < 0 then
    a, r = a - 1, r + b.d
  end
  if a < t then
    a, r = t, 0
  end
  return {a = a, b = r, c = s.c}
end

-- due returns whether the n units of the reservation with the state reserved were allowed
-- to proceed by t.
local function due(b, reserved, t, n)
  if b.leaky then
    return delay(b, reserved, t, n) == 0
  end
  return reserved.a < t + b.full or (reserved.a == t + b.full and reserved.b <= b.full_r)
end

-- take allows a request if and only if max(TAT, t) + n·T <= t + B·T. If it is allowed,
-- the new TAT is max(TAT, t) + n·T.
function bucket.take(b, s, t, n)
  if n == 0 or n > b.burst then
    return s, n == 0
  end
  local past, r = advance(b, carry_over(b, s, t), t, n)
  if past > 0 or (past == 0 and r > b.full_r) then
    return s, false
  end
  return state_at(b, t, past, r), true
end

-- answer returns the decision on a request for asked units at t. s is the state after
-- the request, and spent is the number of units that the request spent.
function bucket.answer(b, s, t, asked, spent, allowed)
  s = carry_over(b, s, t)
  local d = {
    allowed = allowed, never = false, limit = b.burst, remaining = remaining(b, s, t),
    retry_after = 0, reset_after = max(0, bucket.reset_at(b, s) - t), delay = 0,
  }
  if allowed and b.leaky then
    d.delay = delay(b, s, t, spent)
  elseif not allowed and asked > b.burst then
    d.never = true
  elseif not allowed then
    d.retry_after = wait(b, advance(b, s, t, asked))
  end
  return d
end

-- refund changes TAT to max(t, TAT − n·T).
function bucket.refund(b, s, t, n)
  local now = carry_over(b, s, t)
  if now.a < t or n == 0 then
    return s
  end
  return back(b, now, t, times(b, n))
end

-- undo changes TAT to max(t, TAT − n·T + t − t0), except if units are owed to
-- reservations. See tokenbucket.go for the reasons.
function bucket.undo(b, s, was, after, t0, t, n)
  if same(s, after) then
    return was
  end
  local ahead = s.a - t - b.full
  if b.leaky or t < t0 or s.c ~= b.fingerprint or s.a < t or ahead > 0 or (ahead == 0 and s.b > b.full_r) then
    return s
  end
  local whole, r = times(b, n)
  whole = whole - (t - t0)
  if whole < 0 then
    return s
  end
  return back(b, s, t, whole, r)
end

-- reset_at returns TAT, rounded up to a whole µs.
function bucket.reset_at(_, s)
  if s.b > 0 then
    return s.a + 1
  end
  return s.a
end

-- reserve allows TAT to exceed t + B·T by at most max_delay. The units of a leaky
-- bucket are delayed until the previous TAT.
function bucket.reserve(b, s, t, n, max_delay)
  if n == 0 or n > b.burst then
    return s, 0, n == 0
  end
  local now = carry_over(b, s, t)
  local past, r = advance(b, now, t, n)
  local held = wait(b, past, r)
  if b.leaky then
    held = delay(b, now, t, 0)
  end
  if held > max_delay or past >= MAX_EXACT - b.full - t then
    return s, held, false
  end
  return state_at(b, t, past, r), held, true
end

-- cancel makes TAT earlier by n·T, unless the reservation with the state reserved is
-- already due, there is a later reservation, or the limit was changed.
function bucket.cancel(b, s, reserved, t, n)
  if not same(s, reserved) or s.c ~= b.fingerprint or n == 0 or due(b, reserved, t, n) then
    return s
  end
  return back(b, s, t, times(b, n))
end

-- holds returns the functions that correct charges; see account.go.
function bucket.holds()
  local h = {}
  -- adopt is carry_over, without the debt of the leased units, which is then added under
  -- this limit. It cuts the time by which carry_over reduces TAT.
  function h.adopt(b, s, t, p, d, leased)
    if s.c == b.fingerprint then
      return s, 0, false
    end
    if leased > 0 and d > 0 then
      local whole, rest = times({p = p, d = d}, leased)
      whole, rest = s.a - whole, s.b - rest
      if rest < 0 then
        whole, rest = whole - 1, rest + d
      end
      s = whole < 0 and {a = 0, b = 0, c = s.c} or {a = whole, b = rest, c = s.c}
    end
    local next = carry_over(b, s, t)
    local cut = max(0, bucket.reset_at(b, s) - next.a)
    return h.charge(b, next, t, leased), cut, true
  end
  function h.recount()
    return 0
  end
  h.charged_at = h.recount
  function h.unit(b)
    return b.p, b.d
  end
  function h.debt(_, s, t)
    if s.a < t then
      return 0, 0
    end
    return s.a - t, s.b
  end
  -- charge advances TAT by n·T, but not beyond the latest instant of a state.
  function h.charge(b, s, t, n)
    if n == 0 then
      return s
    end
    s = carry_over(b, s, t)
    local whole, r = times(b, n)
    local a, rest = s.a, s.b + r
    if a < t then
      a, rest = t, r
    end
    if rest >= b.d then
      whole, rest = whole + 1, rest - b.d
    end
    if whole > MAX_EXACT - a then
      return {a = MAX_EXACT, b = 0, c = b.fingerprint}
    end
    return {a = a + whole, b = rest, c = b.fingerprint}
  end
  -- raise makes TAT at least t + n·T.
  function h.raise(b, s, t, n)
    local raised = h.charge(b, {a = t, b = 0, c = b.fingerprint}, t, n)
    if s.a < raised.a or (s.a == raised.a and s.b < raised.b) then
      return raised
    end
    return s
  end
  function h.lease_end()
    return EXACT
  end

  -- correct makes TAT earlier by a debt.
  function h.correct(b, s, t, _, _, by, rest)
    return back(b, s, t, by, rest)
  end
  return h
end

return bucket
