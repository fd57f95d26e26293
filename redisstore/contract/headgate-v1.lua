-- Headgate check script, version 1. docs/reference/lua-scripts.md documents it.
--
-- KEYS[1]: the Redis key. ARGV: verb (check, peek, refund, reset), algorithm, rate,
-- period in µs, capacity, cost, and optionally the instant in µs (default: the server's
-- clock). Reply: allowed, limit, remaining, retry_after, reset_after, delay, never.
--
-- This file is generated from the Lua code in algo and redisstore. Do not edit it.

-- Exact arithmetic on whole numbers with Lua's doubles; see rational.go. This text
-- precedes the text of every algorithm.
--
-- A double represents every whole number below 2^53 exactly. For whole numbers x and y
-- with 0 <= x < 2^53 and 0 < y, floor(x / y) and x % y are exact: if the quotient is
-- not whole, it is at least 1/y below the next whole number, and rounding changes it by
-- less. Products in a decision reach 2^82, so products of 2^53 or more are split first.

local floor, min, max = math.floor, math.min, math.max

local EXACT = 9007199254740992 -- 2^53
local MAX_EXACT = EXACT - 1 -- latest instant in a state

local function same(s, o)
  return s.a == o.a and s.b == o.b and s.c == o.c
end

-- mul_div returns a·b/m, rounded down, and the remainder. The arguments must satisfy 0
-- <= a < 2^35, 0 <= b < 2^53 and 0 < m <= 2^45, and the quotient must be below 2^53.
local function mul_div(a, b, m)
  local whole = a * floor(b / m)
  b = b % m
  if a * b < EXACT then
    return whole + floor(a * b / m), a * b % m
  end
  -- Horner's scheme over the five digits of a in base 2^7. The remainder times
  -- 2^7, and a digit times b, are each below 2^52.
  local q, r, place = 0, 0, 268435456 -- 2^28
  repeat
    local digit = floor(a / place)
    a = a % place
    local x = r * 128 + digit * b
    q, r = q * 128 + floor(x / m), x % m
    place = floor(place / 128)
  until place == 0
  return whole + q, r
end

-- mul_div_ceil returns a·b/m rounded up.
local function mul_div_ceil(a, b, m)
  local q, r = mul_div(a, b, m)
  if r > 0 then
    q = q + 1
  end
  return q
end

-- ceil_div returns a/b rounded up.
local function ceil_div(a, b)
  local q = floor(a / b)
  if a % b > 0 then
    q = q + 1
  end
  return q
end

-- times returns n·p/d and the remainder, for a table with the fields p and d. A result of
-- 2^53 or more is not exact, but it is exact that it exceeds any instant in a state.
local function times(f, n)
  if n < 1048576 and f.p < 8589934592 then -- 2^20 and 2^33
    local product = n * f.p
    return floor(product / f.d), product % f.d
  end
  local whole = floor(f.p / f.d)
  local q, r = mul_div(f.p % f.d, n, f.d)
  if whole > 0 and n > floor((MAX_EXACT - q) / whole) then
    return EXACT, 0
  end
  return n * whole + q, r
end

local MAX_COUNT = 1073741823 -- maximum count of units in a sliding window or log: 2^30 − 1

-- no_debt returns the functions of holds that are equal for all algorithms that count in
-- windows; see noDebt in account.go. If all windows have the length w.period, at(w, s, t)
-- returns the state in the window of t. adopt then moves the counts to this window.
local function no_debt(at)
  local h = {}
  function h.adopt(w, s, t, period)
    if not at or period == w.period then
      return s, 0, false
    end
    return at(w, s, t), 0, true
  end
  function h.recount(_, _, _, charged_at)
    return charged_at
  end
  function h.debt()
    return 0, 0
  end
  function h.unit(w)
    return at and w.period or 0, 0
  end
  function h.lease_end()
    return EXACT
  end
  return h
end

local function algorithm_of(number)
if number == 1 then
local x = (function()
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

end)()
return x
end
if number == 2 then
local x = (function()
-- Lua implementation of tokenbucketinterval.go. In the state, a is the instant of the
-- last refill, b the number of tokens plus one, and c the number of tokens owed to
-- reservations.

local interval_bucket = {}

local MAX_UNITS = 1000000000

function interval_bucket.new(params)
  return {rate = params[1], interval = params[2], burst = params[3]}
end

-- unpack returns the instant of the last refill and the number of missing tokens, B −
-- tokens + owed tokens. It limits the owed tokens to the number that can be refilled
-- before the latest instant, because far more may have been owed under another limit.
local function unpack(b, s)
  if s.b == 0 then
    return 0, 0
  end
  local missing = b.burst - min(s.b - 1, b.burst) + s.c
  if s.c > 0 then
    local intervals = floor((MAX_EXACT - s.a) / b.interval)
    if intervals < ceil_div(missing, b.rate) then
      missing = intervals * b.rate
    end
  end
  return s.a, missing
end

local function pack(b, last, missing)
  if missing == 0 then
    return {a = 0, b = 0, c = 0}
  end
  return {a = last, b = max(0, b.burst - missing) + 1, c = max(0, missing - b.burst)}
end

-- at returns the bucket at t, after all refills up to t. A full bucket counts as
-- unused, so its interval begins at t.
local function at(b, s, t)
  local last, missing = unpack(b, s)
  if t > last then
    local k = floor((t - last) / b.interval)
    if k >= ceil_div(missing, b.rate) then
      return t, 0
    end
    last = last + k * b.interval
    missing = missing - k * b.rate
  end
  if missing == 0 then
    last = t
  end
  return last, missing
end

-- instant_of returns the instant at which n tokens are available. n must be above the
-- number of tokens available now.
local function instant_of(b, last, missing, n)
  return last + ceil_div(n - b.burst + missing, b.rate) * b.interval
end

-- take allows a request if and only if tokens >= n.
function interval_bucket.take(b, s, t, n)
  if n == 0 then
    return s, true
  end
  local last, missing = at(b, s, t)
  if n > b.burst - missing then
    return s, false
  end
  return pack(b, last, missing + n), true
end

-- answer calculates retry_after = last + ceil((n−tokens)/R)·I − t and reset_after =
-- last + ceil((B−tokens)/R)·I − t. reset_after is 0 if the bucket is full.
function interval_bucket.answer(b, s, t, asked, _, allowed)
  local last, missing = at(b, s, t)
  local d = {
    allowed = allowed, never = false, limit = b.burst, remaining = max(0, b.burst - missing),
    retry_after = 0, reset_after = 0, delay = 0,
  }
  if missing > 0 then
    d.reset_after = instant_of(b, last, missing, b.burst) - t
  end
  if not allowed and asked > b.burst then
    d.never = true
  elseif not allowed then
    d.retry_after = instant_of(b, last, missing, asked) - t
  end
  return d
end

-- refund sets tokens = min(B, tokens + n), after all refills up to t.
function interval_bucket.refund(b, s, t, n)
  if n == 0 then
    return s
  end
  local last, missing = at(b, s, t)
  return pack(b, last, missing - min(n, missing))
end

-- undo refunds n tokens, unless tokens were refilled since the take or are owed to
-- reservations. If the take started the current interval, undo moves the beginning of
-- that interval to t. See tokenbucketinterval.go for the reasons.
function interval_bucket.undo(b, s, was, after, t0, t, n)
  if same(s, after) then
    return was
  end
  local last, missing = unpack(b, s)
  if t < t0 or s.c > 0 or n == 0 or n > missing or s.a < after.a or s.a - after.a >= b.interval then
    return s
  end
  local _, before = at(b, was, t0)
  if before == 0 then
    last = max(last, t)
  end
  return pack(b, last, missing - n)
end

-- reset_at returns the instant at which the bucket is full, or 0 if it is full.
function interval_bucket.reset_at(b, s)
  local last, missing = unpack(b, s)
  if missing == 0 then
    return 0
  end
  return instant_of(b, last, missing, b.burst)
end

-- reserve lets the bucket owe tokens that are not yet available, at most 1e9 in total,
-- if they can be refilled before the latest instant.
function interval_bucket.reserve(b, s, t, n, max_delay)
  if n == 0 or n > b.burst then
    return s, 0, n == 0
  end
  local last, missing = at(b, s, t)
  local delay = 0
  if n > b.burst - missing then
    delay = instant_of(b, last, missing, n) - t
  end
  missing = missing + n
  local payable = ceil_div(missing, b.rate) <= floor((MAX_EXACT - last) / b.interval)
  if delay > max_delay or missing - b.burst > MAX_UNITS or not payable then
    return s, delay, false
  end
  return pack(b, last, missing), delay, true
end

-- cancel refunds n tokens, unless the reservation with the state reserved is already due
-- or there is a later reservation.
function interval_bucket.cancel(b, s, reserved, t, n)
  local last, missing = at(b, s, t)
  if not same(s, reserved) or n == 0 or missing <= b.burst then
    return s
  end
  return pack(b, last, missing - min(n, missing))
end

-- holds returns the functions that correct charges; see account.go.
function interval_bucket.holds()
  local h = no_debt()
  function h.charged_at()
    return 0
  end
  function h.debt(b, s, t)
    local _, missing = at(b, s, t)
    return missing, 0
  end
  function h.unit(b)
    return b.burst, b.burst
  end
  -- charge adds n to the missing tokens. At most 10^9 tokens can be owed.
  function h.charge(b, s, t, n)
    if n == 0 then
      return s
    end
    local last, missing = at(b, s, t)
    return pack(b, last, min(missing + n, b.burst + MAX_UNITS))
  end
  -- adopt converts the state of a key with leased units; see tokenbucketinterval.go.
  function h.adopt(b, s, t, p, _, leased)
    if leased == 0 or p == b.burst or s.b == 0 then
      return s, 0, false
    end
    local own, tokens = {a = 0, b = 0, c = 0}, s.b - 1 - s.c + leased
    if tokens < p then
      own = {a = s.a, b = max(0, tokens) + 1, c = max(0, -tokens)}
    end
    return h.charge(b, own, t, leased), 0, false
  end
  -- raise makes at least n tokens missing. If no more are missing, the interval begins at
  -- t, as in a bucket that is full without these n.
  function h.raise(b, s, t, n)
    local _, missing = at(b, s, t)
    n = min(n, b.burst + MAX_UNITS)
    if missing > n then
      return s
    end
    return pack(b, t, n)
  end

  function h.correct(b, s, t, _, _, by)
    return interval_bucket.refund(b, s, t, by)
  end
  return h
end

return interval_bucket

end)()
return x
end
if number == 3 then
local x = (function()
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

end)()
return x
end
if number == 4 then
local x = (function()
-- Lua implementation of slidinglog.go. The state is a list of {at, units}, oldest
-- first, with different instants. take (if it allows) and refund remove the oldest
-- entries that have aged out, and then append an entry, or change or remove the newest
-- entries. undo changes or removes any entry. fits and answer do not modify the list,
-- because after a peek there may be a request at an earlier instant.

local sliding_log = {}

function sliding_log.new(params)
  return {limit = params[1], period = params[2]}
end

-- since returns the number of entries that are not later than the parameter before, the
-- number of their units, and the number of units of all later entries.
local function since(log, before)
  local entries, aged, counted = 0, 0, 0
  for i = 1, #log do
    if log[i].at <= before then
      entries, aged = i, aged + log[i].units
    else
      counted = counted + log[i].units
    end
  end
  return entries, aged, counted
end

-- age removes the entries whose instants are not later than the parameter before.
local function age(log, before)
  local aged = since(log, before)
  if aged == 0 then
    return
  end
  for i = 1, #log do
    log[i] = log[i + aged]
  end
end

-- add adds n units at t, or to the newest entry if that is not before t or if room is
-- false.
local function add(log, t, n, room)
  local newest = log[#log]
  if newest and (t <= newest.at or not room) then
    newest.at = max(t, newest.at)
    newest.units = newest.units + n
    return
  end
  log[#log + 1] = {at = t, units = n}
end

-- spent_by returns the instant at which the n-th of the units in the log was spent.
local function spent_by(log, n)
  local i = 0
  repeat
    i = i + 1
    n = n - log[i].units
  until n <= 0
  return log[i].at
end

-- take allows a request if and only if counted + n <= L. If room is false, it does not
-- add an entry: it adds the units to the newest entry and moves that entry's instant up
-- to t.
function sliding_log.take(w, log, t, n, room)
  if n == 0 then
    return true
  end
  if not sliding_log.fits(w, log, t, n) then
    return false
  end
  sliding_log.charge(w, log, t, n, room)
  return true
end

-- charge spends n units, whether or not they are available.
function sliding_log.charge(w, log, t, n, room)
  age(log, t - w.period)
  add(log, t, n, room)
end

-- fits returns whether take would allow the request: counted + n <= L.
function sliding_log.fits(w, log, t, n)
  local _, _, counted = since(log, t - w.period)
  return n == 0 or n <= w.limit - counted
end

-- answer calculates retry_after, the wait until enough of the oldest units have aged
-- out, and reset_after, the wait until the newest entry has aged out.
function sliding_log.answer(w, log, t, asked, allowed)
  local _, aged, counted = since(log, t - w.period)
  local d = {
    allowed = allowed, never = false, limit = w.limit, remaining = max(0, w.limit - counted),
    retry_after = 0, reset_after = 0, delay = 0,
  }
  if counted > 0 then
    d.reset_after = log[#log].at + w.period - t
  end
  if not allowed and asked > w.limit then
    d.never = true
  elseif not allowed then
    d.retry_after = spent_by(log, aged + counted + asked - w.limit) + w.period - t
  end
  return d
end

-- refund removes n units, beginning with the newest entry.
function sliding_log.refund(w, log, t, n)
  if n == 0 then
    return
  end
  age(log, t - w.period)
  while n > 0 and #log > 0 do
    local newest = log[#log]
    if newest.units > n then
      newest.units = newest.units - n
      return
    end
    n = n - newest.units
    log[#log] = nil
  end
end

-- undo removes n units from the entry with this instant. It does nothing if there is no
-- such entry with at least n units.
function sliding_log.undo(_, log, instant, n)
  local i = #log
  while i > 0 and log[i].at > instant do
    i = i - 1
  end
  local entry = log[i]
  if not entry or entry.at ~= instant or entry.units < n then
    return
  end
  entry.units = entry.units - n
  if entry.units == 0 then
    for j = i, #log do
      log[j] = log[j + 1]
    end
  end
end

-- reset_at returns the instant at which the newest entry has aged out.
function sliding_log.reset_at(w, log)
  if #log == 0 then
    return 0
  end
  return log[#log].at + w.period
end

return sliding_log

end)()
return x
end
if number == 5 then
local x = (function()
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

end)()
return x
end
if number == 6 then
local x = (function()
local bucket = (function()
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

end)()
-- Lua implementation of leakybucket.go: the token bucket with the flag leaky set. The
-- text of the token bucket precedes this text, as the local variable bucket.

local new = bucket.new

function bucket.new(params)
  local b = new(params)
  b.leaky = true
  return b
end

return bucket

end)()
return x
end
if number == 7 then
local x = (function()
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

end)()
return x
end
if number == 8 then
local x = (function()
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

end)()
return x
end
end

local function decide(KEYS, ARGV)
-- This is the only script for the store's own layout. It executes a list of runs on the
-- states of KEYS at one instant and writes the states that changed. A run is one or
-- several equal operations on one key. The script consists of prelude.lua,
-- fastpath.lua, log.lua, logchunks.lua, slowpath.lua and commit.lua. Before them come
-- arithmetic.lua and the function algorithm_of, which returns the functions of the
-- algorithm with a given number.
--
-- ARGV[1] is the header: the instant in µs, or -1 for the server's clock; the mode; the
-- number of keys with plain states; the number of keys with logs, which follow them; the
-- number of rules; and the rules, each with its algorithm and its parameters. The last
-- keys have the records of ended holds. ARGV[2] is the list of runs. A run consists of
-- the number of its key, the number of its rule, a verb, a count, units, and the
-- arguments of the verb. Numbers are packed by struct, little-endian.
--
-- The reply is one string: the instant, then the previous value of each plain state,
-- then the decisions of each run on a log. For plain states the caller repeats the
-- steps to compute the decisions.

local unpack_from, pack, concat = struct.unpack, struct.pack, table.concat

-- Modes: EACH executes every run independently, ALL takes all runs or none, PEEK_ALL
-- reports what ALL would decide. OPEN_ALL opens a hold with every run, or with none.
-- UP_TO_ALL takes the same number of units with every run.
local EACH, ALL, PEEK_ALL, OPEN_ALL, UP_TO_ALL = 0, 1, 2, 3, 4
local TAKE, PEEK, REFUND, RESET, RESERVE, CANCEL, UNDO = 0, 1, 2, 3, 4, 5, 6
local OPEN = 7 -- the first of the verbs of holds; see holds.lua
local STATE, STATE_BYTES, FORMAT = '<BdI4I4', 17, 1
-- VALUE is the format of a state in Redis. Its last field is the instant in ms at which
-- the key expires, or 0 if that is not stored.
local VALUE, VALUE_BYTES = '<BdI4I4d', 25
local HELD = 4 -- the format of a state with open holds, which follow it; see holds.lua
local ABSENT, FOREIGN = ('\0'):rep(VALUE_BYTES), ('\255'):rep(VALUE_BYTES)
local RUN, DOUBLES = '<HHBI4d', '<dddddddddddd'
local UNUSED = {a = 0, b = 0, c = 0}
local DAY, MIN_EXTRA, MAX_EXTRA = 86400000, 10000, 60000 -- ms

local head, runs = ARGV[1], ARGV[2]
local t, mode, plain, log_count, rule_count, at = unpack_from('<dBHHH', head)
local state_count = plain + log_count
local server_clock = t < 0
if server_clock then
  local clock = redis.call('TIME')
  t = clock[1] * 1000000 + clock[2]
end

local loaded, rules = {}, {}
for i = 1, rule_count do
  local algorithm, count
  algorithm, count, at = unpack_from('<BB', head, at)
  local params = {unpack_from(DOUBLES:sub(1, count + 1), head, at)}
  at, params[count + 1] = params[count + 1], nil
  local x = loaded[algorithm]
  if not x then
    x = algorithm_of(algorithm)
    loaded[algorithm] = x
  end
  rules[i] = {x = x, w = x.new(params, t)}
end

-- SET_TTL is the option of SET, and EXPIRE the command, that sets the TTL of a key. The
-- TTL is rounded up to a millisecond and never 0. An instant that the caller passed is
-- independent of the server's clock, so the key is then kept for a day longer than its
-- state matters.
local SET_TTL, EXPIRE, FROM, EXTRA = 'PXAT', 'PEXPIREAT', 0, 0
if not server_clock then
  SET_TTL, EXPIRE, FROM, EXTRA = 'PX', 'PEXPIRE', t, DAY
end

-- ttl_end returns the argument of SET_TTL and EXPIRE for a key whose state is unused
-- from reset_at on: an instant in ms, or a duration in ms if the caller passed the
-- instant.
local function ttl_end(reset_at)
  return ceil_div(max(0, reset_at - FROM), 1000) + EXTRA
end

-- current_ttl returns the TTL of a key in the form of ttl_end, or a number below 0 if the
-- key does not exist or has no TTL.
local function current_ttl(key)
  local left = redis.call('PTTL', key)
  if left >= 0 and server_clock then
    left = floor(t / 1000) + left
  end
  return left
end

-- extend_ttl sets the TTL of a key whose value did not change, if the TTL is missing or
-- ends before needed, a result of ttl_end. A denied request never shortens a TTL: the
-- value may have been written under another limit, by which it matters for longer.
local function extend_ttl(key, needed)
  if current_ttl(key) < needed then
    redis.call(EXPIRE, key, needed)
  end
end

-- keep_ttl is whether this call may be undone, or undoes another call. Such a call does
-- not shorten a TTL, because the state before it may matter for longer.
local keep_ttl = mode == ALL

-- ttl_of_write returns the argument of SET_TTL and EXPIRE for a key that is written and
-- whose state is unused from reset_at on.
local function ttl_of_write(key, reset_at)
  local needed = ttl_end(reset_at)
  if keep_ttl then
    return max(needed, current_ttl(key))
  end
  return needed
end

-- read_values returns the strings of the keys from number first to number last. It reads
-- some at a time, because a Lua function has at most 8,000 results.
local MAX_READ = 4096
local function read_values(first, last)
  local values = redis.call('MGET', unpack(KEYS, first, min(last, first + MAX_READ - 1)))
  for from = first + MAX_READ, last, MAX_READ do
    local more = redis.call('MGET', unpack(KEYS, from, min(last, from + MAX_READ - 1)))
    for i = 1, #more do
      values[#values + 1] = more[i]
    end
  end
  return values
end

-- Read the states of the keys with plain states. A value that was written by another
-- program is foreign and is not changed. In the all-or-nothing modes, a foreign value
-- is an error.
local before, found, states, expires_at, foreign, last_rule = {}, {}, {}, {}, {}, {}
local held, any_held, holds_of = {}, false, nil
if plain > 0 and state_count > 1 and mode == EACH then
  -- MGET returns nothing for a key that is not a string; see commit.lua.
  before = read_values(1, plain)
else
  for k = 1, plain do
    before[k] = redis.call('GET', KEYS[k])
  end
end
for k = 1, plain do
  local v = before[k]
  if not v then
    states[k] = UNUSED
  else
    local format, a, b, c
    if #v == VALUE_BYTES then
      format, a, b, c, expires_at[k] = unpack_from(VALUE, v)
    elseif #v > VALUE_BYTES then
      format, a, b, c, expires_at[k] = unpack_from(VALUE, v)
      if format == HELD then
        format, held[k], any_held = FORMAT, v, true
      else
        format = nil
      end
    end
    if format == FORMAT and a >= 0 and a <= MAX_EXACT then
      found[k] = {a = a, b = b, c = c}
      states[k] = found[k]
    elseif mode == EACH then
      states[k], foreign[k] = UNUSED, true
    else
      error('HEADGATE_FOREIGN')
    end
  end
end

local pos, size = 1, #runs
local logs, answers = {}, {}

-- take_times takes n units count times at one instant. If all takes together are
-- allowed, they are one take of the sum. Otherwise the takes are executed one after
-- another until one is denied; all later takes would be denied, too.
local function take_times(x, w, s, n, count)
  local next, ok = x.take(w, s, t, n * count)
  if ok or count == 1 then
    return next
  end
  repeat
    s, ok = x.take(w, s, t, n)
  until not ok
  return s
end

-- The fast path executes the most frequent runs: takes and peeks of plain states.
while pos <= size and mode == EACH and log_count == 0 and not any_held do
  local k, r, verb, count, n, next = unpack_from(RUN, runs, pos)
  if verb > PEEK then
    break
  end
  local rule = rules[r]
  if verb == TAKE then
    states[k] = take_times(rule.x, rule.w, states[k], n, count)
  end
  last_rule[k], pos = rule, next
end
if pos <= size then
local log_store = log_count > 0 and (function()
-- The storage of sliding logs. An entry consists of an instant and the running total of
-- units up to this entry. Totals are stored modulo 2^32: a log has at most 10^9 units,
-- so the difference of two totals is exact. The units of a range of entries are such a
-- difference, and a binary search finds the ends of the range. So no operation reads
-- all entries.
--
-- A small log is a string: the format, the total before the first entry, and the
-- entries, oldest first. A log with more than CHUNK entries is a hash; see
-- logchunks.lua. The table log has the newest entries, at least one, in the field tail.
--
-- A log of a key with open holds has another format. The list of holds, as in holds.lua,
-- precedes the entries, or is the field o of the hash. Such a log may have no entries.
--
-- Operations change only the table log. log_store.save writes it at the end of the
-- script. If a key were deleted earlier, a cluster node that is moving the slot of the
-- key would refuse to access the key again.
local log_store = {}
local SMALL, SMALL_BYTES, LOG_FORMAT = '<BI4', 5, 3
local HELD_SMALL, HELD_SMALL_BYTES, HELD_LOG = '<BI4I4', 9, 5
local ENTRY, ENTRY_BYTES, WRAP = '<dI4', 12, 4294967296
local CHUNK = 127 -- maximum entries of a small log, and entries of a chunk
local MAX_SMALL, MAX_ENTRIES = 1024, 1048576 -- maximum entries of a string, and of a hash
local chunked -- returns the functions for a log that is a hash; see logchunks.lua

-- entry_at returns the instant and the total of entry i. The first entry has number 0.
local function entry_at(entries, i)
  return unpack_from(ENTRY, entries, i * ENTRY_BYTES + 1)
end

-- find searches for the first entry, from the entry first on, that is later than cut
-- and up to which there are at least k units since the total base. It returns the
-- number of the entry, the units before it, and whether there is such an entry. If
-- there is none, it returns the number of entries and their units.
local function find(entries, first, base, cut, k)
  local count, units = #entries / ENTRY_BYTES, 0
  local low, high, probe = first, count, first -- the first entry is often the result
  while low < high do
    local at, total = entry_at(entries, probe)
    total = (total - base) % WRAP
    if at > cut and total >= k then
      high = probe
    else
      low, units = probe + 1, total
    end
    probe = floor((low + high) / 2)
  end
  return low, units, low < count
end

local function newest(log)
  return entry_at(log.tail, #log.tail / ENTRY_BYTES - 1)
end

-- search is like find for the whole log. It returns the number of the chunk with the
-- entry (nil for the tail), the number of the entry in it, the units before the entry,
-- its instant and its units. If no entry matches, the instant is nil.
local function search(log, cut, k)
  local before = 0
  if log.chunks then
    local _, total = newest(log)
    before = log.total - (total - log.base) % WRAP
  end
  if log.chunks and k <= before then
    local chunk, i, at, units
    chunk, i, before, at, units = chunked().search(log, cut, k)
    if at then
      return chunk, i, before, at, units
    end
  end
  local i, units, found = find(log.tail, 0, log.base, cut, k - before)
  if not found then
    return nil, i, before + units
  end
  local at, total = entry_at(log.tail, i)
  return nil, i, before + units, at, (total - log.base) % WRAP - units
end

-- aged_units returns the units that are not later than cut. It stores the position of
-- the first later entry in the table log.
local function aged_units(log, cut)
  if log.cut ~= cut then
    local chunk, i, units = nil, 0, log.total
    if log.total > 0 and newest(log) > cut then
      chunk, i, units = search(log, cut, 0)
    end
    log.cut, log.aged, log.first_chunk, log.first_entry = cut, units, chunk, i
  end
  return log.aged
end

-- summary returns the log as a list of at most three entries, on which the algorithm
-- works: the units that are not later than cut, the later ones up to the entry with
-- unit k (if k is not nil) at the instant of that entry, and the remaining units at the
-- newest instant.
local function summary(log, cut, k)
  local list, done = {}, aged_units(log, cut)
  if done > 0 then
    list[1] = {at = cut, units = done}
  end
  if k then
    local _, _, before, at, units = search(log, cut, k)
    list[#list + 1] = {at = at, units = before + units - done}
    done = before + units
  end
  if log.total > done then
    list[#list + 1] = {at = newest(log), units = log.total - done}
  end
  return list
end

local function units_of(list)
  local total = 0
  for i = 1, #list do
    total = total + list[i].units
  end
  return total
end

function log_store.fits(log, rule, n)
  return rule.x.fits(rule.w, summary(log, t - rule.w.period), t, n)
end

function log_store.answer(log, rule, n, allowed)
  local k
  if not allowed and n <= rule.w.limit then -- wait until the entry with this unit expires
    k = log.total + n - rule.w.limit
  end
  return rule.x.answer(rule.w, summary(log, t - rule.w.period, k), t, n, allowed)
end

local function mark_changed(log)
  log.changed, log.cut = true, nil
end

-- clear removes all entries.
local function clear(log)
  mark_changed(log)
  log.tail, log.base, log.total = '', 0, 0
  if log.chunks then
    chunked().restart(log)
  end
end

-- drop removes the entries that aged_units has counted.
local function drop(log)
  local chunk, i, aged = log.first_chunk, log.first_entry, log.aged
  if aged == 0 then
    return
  elseif aged == log.total then
    clear(log)
    return
  end
  mark_changed(log)
  log.total = log.total - aged
  if chunk then
    chunked().drop(log, chunk, i)
    return
  end
  if log.chunks then
    log.chunks.first = log.chunks.last
  end
  if i > 0 then
    local _
    _, log.base = entry_at(log.tail, i - 1)
    log.tail = log.tail:sub(i * ENTRY_BYTES + 1)
  end
end

-- replaceable returns whether the script may delete a key and create it again. A
-- cluster node that is moving the slot of the key refuses to access a key that does not
-- exist.
local function replaceable(key)
  return type(redis.pcall('GET', key .. '~')) ~= 'table'
end

-- add adds n units at an instant: to the newest entry if merged is true, and otherwise
-- as a new entry.
local function add(log, at, n, merged)
  local total = log.base
  if log.tail ~= '' then
    local _
    _, total = newest(log)
  end
  mark_changed(log)
  local entry = pack(ENTRY, at, (total + n) % WRAP)
  log.tail = (merged and log.tail:sub(1, -ENTRY_BYTES - 1) or log.tail) .. entry
  log.total = log.total + n
  if #log.tail > CHUNK * ENTRY_BYTES and (log.chunks or not log.stored or replaceable(log.key)) then
    chunked().split(log)
  end
end

-- truncate removes the newest entries so that k units remain.
local function truncate(log, k)
  if k == 0 then
    clear(log)
    return
  end
  local chunk, i, before, at, units = search(log, -1, k)
  mark_changed(log)
  if chunk then
    chunked().reopen(log, chunk, i)
  else
    log.tail = log.tail:sub(1, (i + 1) * ENTRY_BYTES)
  end
  local _, total = newest(log)
  log.tail = log.tail:sub(1, -ENTRY_BYTES - 1) .. pack(ENTRY, at, (total - (before + units - k)) % WRAP)
  log.total = k
end

-- room returns whether the log may have another entry.
local function room(log)
  if log.chunks then
    return chunked().count(log) < MAX_ENTRIES
  end
  return #log.tail < MAX_SMALL * ENTRY_BYTES
end

-- take takes n units at an instant or, without one, at t, whether or not the limit allows
-- them.
function log_store.take(log, rule, n, at)
  at = at or t
  local cut = at - rule.w.period
  n = min(n, MAX_COUNT - log.total + aged_units(log, cut))
  if n <= 0 then
    return
  end
  local list = summary(log, cut)
  local last = list[#list]
  rule.x.charge(rule.w, list, at, n, room(log))
  drop(log)
  add(log, list[#list].at, n, list[#list] == last)
end

-- refund refunds n units, beginning with the newest entry.
function log_store.refund(log, rule, n)
  if n == 0 or log.total == 0 then
    return
  end
  local cut, k = t - rule.w.period, log.total - n
  local list = summary(log, cut, k > aged_units(log, cut) and k or nil)
  rule.x.refund(rule.w, list, t, n)
  drop(log)
  truncate(log, units_of(list))
end

function log_store.reset(log)
  clear(log)
end

-- subtract reduces the totals from entry i on by n.
local function subtract(entries, i, n)
  local parts = {entries:sub(1, i * ENTRY_BYTES)}
  for j = i, #entries / ENTRY_BYTES - 1 do
    local at, total = entry_at(entries, j)
    parts[#parts + 1] = pack(ENTRY, at, (total - n) % WRAP)
  end
  return concat(parts)
end

-- undo removes n units that the log recorded at the instant mark. An entry that then
-- has no units is kept, unless it is the newest one.
function log_store.undo(log, rule, mark, n)
  local chunk, i, before, at, units = search(log, mark - 1, 0)
  if at ~= mark then
    return
  end
  local list, rest = {}, log.total - before - units
  if before > 0 then
    list[1] = {at = mark - 1, units = before}
  end
  list[#list + 1] = {at = mark, units = units}
  if rest > 0 then
    list[#list + 1] = {at = newest(log), units = rest}
  end
  rule.x.undo(rule.w, list, mark, n)
  local left = units_of(list)
  if left == log.total then
    return
  elseif rest == 0 then
    truncate(log, left)
    return
  end
  mark_changed(log)
  if chunk then
    chunked().subtract(log, chunk, i, log.total - left, subtract)
  else
    log.tail = subtract(log.tail, i, log.total - left)
  end
  log.total = left
end

-- correct removes up to n units that the log recorded at the instant mark, unless they
-- have aged out at the instant at.
function log_store.correct(log, rule, at, mark, n)
  if log.total > 0 and mark > at - rule.w.period then
    local _, _, _, found, units = search(log, mark - 1, 0)
    if found == mark then
      log_store.undo(log, rule, mark, min(n, units))
    end
  end
end

-- counted returns the units that are later than cut.
function log_store.counted(log, cut)
  return log.total - aged_units(log, cut)
end

-- charged_at returns the instant of the newest entry, or 0 if there is none.
function log_store.charged_at(log)
  return log.total > 0 and newest(log) or 0
end

-- read_head returns the head of a log that is a hash, or nil if the key does not exist.
-- The second result is whether the value was written by another program.
local function read_head(key)
  local head = redis.pcall('HGET', key, 'h')
  if type(head) == 'table' then
    if mode == EACH and head.err:find('WRONGTYPE', 1, true) then
      return nil, true
    end
    head = redis.call('HGET', key, 'h') -- raises the same error
  end
  return head, not head and type(redis.pcall('GET', key)) == 'table'
end

-- read_small decodes a string. It returns false if another program wrote the string.
local function read_small(log, value)
  local format, head = value:byte(1), SMALL_BYTES
  local _, total, size
  if format == HELD_LOG and #value > HELD_SMALL_BYTES then
    _, _, size = unpack_from(HELD_SMALL, value)
    head = HELD_SMALL_BYTES + size
    log.held = value:sub(HELD_SMALL_BYTES + 1, head)
  end
  local bytes = #value - head
  if bytes < (log.held and 0 or ENTRY_BYTES) or bytes % ENTRY_BYTES > 0 or (format ~= LOG_FORMAT and not log.held) then
    return false
  end
  _, log.base = unpack_from(SMALL, value)
  log.tail, log.stored = value:sub(head + 1), 'string'
  if bytes > 0 then
    _, total = newest(log)
    log.total = (total - log.base) % WRAP
  end
  return true
end

-- open returns the log of a key. The parameter value is the string of the key; false
-- means that the key has no string. If the value was written by another program, open
-- returns nil in mode EACH; in the other modes that is an error.
function log_store.open(key, value)
  local log = {key = key, tail = '', base = 0, total = 0}
  local foreign
  if value then
    foreign = not read_small(log, value)
  else
    value, foreign = read_head(key)
    if value then
      foreign = not chunked().open(log, value)
    end
  end
  if not foreign then
    return log
  elseif mode ~= EACH then
    error('HEADGATE_FOREIGN')
  end
end

-- save writes a log that has changed. It deletes a log that is unused. A log that did
-- not change, because the units were denied, only gets a longer TTL. The log is kept
-- until the last deadline of a hold.
function log_store.save(log, rule)
  local used, reset_at = log.total > 0 or log.held, log.last_deadline or 0
  if log.total > 0 then
    reset_at = max(reset_at, rule.x.reset_at(rule.w, {{at = newest(log)}}))
  end
  if used and not log.changed then
    extend_ttl(log.key, ttl_end(reset_at))
    return
  end
  if not used or (server_clock and reset_at <= t and not keep_ttl) then
    if log.stored then
      redis.call(log.stored == 'hash' and 'UNLINK' or 'DEL', log.key)
    end
    return
  end
  local ttl = ttl_of_write(log.key, reset_at)
  if log.chunks then
    chunked().save(log)
    redis.call(EXPIRE, log.key, ttl)
  elseif log.held then
    redis.call('SET', log.key, pack(HELD_SMALL, HELD_LOG, log.base, #log.held) .. log.held .. log.tail, SET_TTL, ttl)
  else
    redis.call('SET', log.key, pack(SMALL, LOG_FORMAT, log.base) .. log.tail, SET_TTL, ttl)
  end
end
-- A log with more than CHUNK entries is a hash of chunks. A chunk has CHUNK entries and
-- does not change any more, except by a refund or an undo. CHUNK consecutive chunks are
-- a group. An index has an entry for each chunk of a group, or for each group: the
-- instant of its last entry, and the running total of units. The fields are:
--
--   h        the head, and the newest entries, at least one
--   o        the open holds, if there are any
--   0, 1, …  the chunks
--   g        the index of the chunks in the last group
--   g0, g1…  the indexes of the chunks in the groups before
--   r        the index of these groups
--
-- The totals of an index, or of a chunk, begin with a total of their own, so an undo
-- changes one chunk and its indexes. An operation reads and writes at most one chunk
-- and its indexes for each end of a range. Chunks that are no longer part of the log
-- are never read; each call that writes the log deletes some of them.
--
-- The head has the following numbers. Chunks below low and from high on are not stored.
-- first is the number of the chunk with the oldest entry, skip the number of entries in
-- it that were removed, and last the number that the tail gets when it is a chunk. top
-- is the first group in the index r. The totals before the oldest entry are chunk_base
-- in its chunk, group_base in the index of its group, and root_base in the index r. If
-- first is not last, oldest and front are the instant and the units of the oldest
-- entry.
local HEAD, HEAD_BYTES = '<BddddddI4I4I4I4I4I4I4', 77
local MAX_DELETED = 16 -- chunks that one call deletes
local chunk_functions

function chunked()
  if chunk_functions then
    return chunk_functions
  end
  local store = {}
  chunk_functions = store

  -- node returns a chunk or an index.
  local function node(log, field)
    local n = log.chunks.nodes[field]
    if not n then
      local raw = redis.call('HGET', log.key, field)
      if not raw then
        error('HEADGATE_FOREIGN')
      end
      n = {base = unpack_from('<I4', raw), entries = raw:sub(5)}
      log.chunks.nodes[field] = n
    end
    return n
  end

  local function put(log, field, entries, base)
    log.chunks.nodes[field] = {base = base, entries = entries}
    log.chunks.written[field] = true
  end

  local function group_of(chunk)
    return floor(chunk / CHUNK)
  end

  -- index_of returns the field with the index of a group.
  local function index_of(log, group)
    return group == group_of(log.chunks.last) and 'g' or 'g' .. group
  end

  -- last_total returns the total of the last entry of a node.
  local function last_total(n)
    if n.entries == '' then
      return n.base
    end
    local _, total = entry_at(n.entries, #n.entries / ENTRY_BYTES - 1)
    return total
  end

  -- total_before returns the total before entry i of a node.
  local function total_before(n, i)
    if i == 0 then
      return n.base
    end
    local _, total = entry_at(n.entries, i - 1)
    return total
  end

  function store.open(log, head)
    local bytes = #head - HEAD_BYTES
    local format = head:byte(1)
    if bytes < (format == HELD_LOG and 0 or ENTRY_BYTES) or bytes % ENTRY_BYTES > 0 or (format ~= LOG_FORMAT and format ~= HELD_LOG) then
      return false
    end
    if format == HELD_LOG then
      log.held = redis.call('HGET', log.key, 'o') or nil
      log.has_field = true
    end
    local x, _ = {nodes = {}, written = {}}
    _, x.low, x.first, x.last, x.high, x.top, x.oldest, x.skip, x.chunk_base, x.group_base, x.root_base, x.front, log.base, log.total = unpack_from(HEAD, head)
    log.chunks, log.tail, log.stored = x, head:sub(HEAD_BYTES + 1), 'hash'
    return true
  end

  -- count returns the number of entries of the log.
  function store.count(log)
    local x = log.chunks
    local entries = #log.tail / ENTRY_BYTES
    if x.first < x.last then
      entries = entries + (x.last - x.first) * CHUNK - x.skip
    end
    return entries
  end

  -- find_chunk searches the indexes for the chunk with the entry. It returns its number
  -- and the units before it, or nil and the units of all chunks.
  local function find_chunk(log, cut, k)
    local x = log.chunks
    local first, open = group_of(x.first), group_of(x.last)
    local group, before, base, from, found = open, 0, 0, 0, nil
    if first < open then
      group, before, found = find(node(log, 'r').entries, first - x.top, x.root_base, cut, k)
      group = found and x.top + group or open
    end
    if group == first then
      base, from = x.group_base, x.first % CHUNK
    end
    local i, units, found_chunk = find(node(log, index_of(log, group)).entries, from, base, cut, k - before)
    return found_chunk and group * CHUNK + i or nil, before + units
  end

  function store.search(log, cut, k)
    local x = log.chunks
    if x.first == x.last then
      return nil, 0, 0
    elseif x.oldest > cut and k <= x.front then
      return x.first, x.skip, 0, x.oldest, x.front
    end
    local chunk, before = find_chunk(log, cut, k)
    if not chunk then
      return nil, 0, before
    end
    local n, from = node(log, chunk), 0
    local base = n.base
    if chunk == x.first then
      base, from = x.chunk_base, x.skip
    end
    local i, units = find(n.entries, from, base, cut, k - before)
    local at, total = entry_at(n.entries, i)
    return chunk, i, before + units, at, (total - base) % WRAP - units
  end

  -- drop removes the entries before entry i of a chunk.
  function store.drop(log, chunk, i)
    local x, group = log.chunks, group_of(chunk)
    local n, index = node(log, chunk), node(log, index_of(log, group))
    local base = total_before(n, i)
    local group_base = total_before(index, chunk % CHUNK) + (base - n.base) % WRAP
    if group < group_of(x.last) then
      x.root_base = (total_before(node(log, 'r'), group - x.top) + group_base) % WRAP
    end
    x.first, x.skip, x.chunk_base, x.group_base = chunk, i, base, group_base % WRAP
    local total
    x.oldest, total = entry_at(n.entries, i)
    x.front = (total - base) % WRAP
  end

  -- restart makes all chunks unused. New chunks begin with a new group.
  function store.restart(log)
    local x = log.chunks
    local group = ceil_div(max(x.last, x.high), CHUNK)
    x.first, x.last, x.high, x.top = group * CHUNK, group * CHUNK, group * CHUNK, group
    put(log, 'g', '', 0)
    put(log, 'r', '', 0)
  end

  -- close_group adds the full index of the last group to the index of the groups.
  local function close_group(log, group, at)
    local x = log.chunks
    local index, root = node(log, 'g'), node(log, 'r')
    local first = group_of(x.first)
    local unused = min(first - x.top, #root.entries / ENTRY_BYTES)
    local base, entries = total_before(root, unused), root.entries:sub(unused * ENTRY_BYTES + 1)
    local before = last_total(root)
    if first == group then
      x.root_base = (before + x.group_base) % WRAP
    end
    x.top = group - #entries / ENTRY_BYTES
    put(log, 'r', entries .. pack(ENTRY, at, (before + last_total(index)) % WRAP), base)
    put(log, 'g' .. group, index.entries, 0)
    put(log, 'g', '', 0)
  end

  -- close_chunk makes a chunk of the oldest entries of the tail.
  local function close_chunk(log)
    local x, index = log.chunks, node(log, 'g')
    local entries = log.tail:sub(1, CHUNK * ENTRY_BYTES)
    local at, total = entry_at(entries, CHUNK - 1)
    local before = last_total(index)
    if x.first == x.last then
      local oldest, first_total = entry_at(entries, 0)
      x.skip, x.chunk_base, x.group_base = 0, log.base, before
      x.oldest, x.front = oldest, (first_total - log.base) % WRAP
    end
    put(log, x.last, entries, log.base)
    put(log, 'g', index.entries .. pack(ENTRY, at, (before + total - log.base) % WRAP), 0)
    log.tail, log.base = log.tail:sub(CHUNK * ENTRY_BYTES + 1), total
    x.last = x.last + 1
    x.high = max(x.high, x.last)
    if x.last % CHUNK == 0 then
      close_group(log, x.last / CHUNK - 1, at)
    end
  end

  -- split makes chunks of a tail that is too long. A small log becomes a hash.
  function store.split(log)
    if not log.chunks then
      log.chunks = {
        nodes = {}, written = {}, low = 0, first = 0, last = 0, high = 0, top = 0, oldest = 0,
        skip = 0, chunk_base = 0, group_base = 0, root_base = 0, front = 0,
      }
      put(log, 'g', '', 0)
      put(log, 'r', '', 0)
    end
    while #log.tail > CHUNK * ENTRY_BYTES do
      close_chunk(log)
    end
  end

  -- reopen removes all entries after entry i of a chunk. The rest of the chunk becomes
  -- the tail.
  function store.reopen(log, chunk, i)
    local x, n, from = log.chunks, node(log, chunk), 0
    local group, open = group_of(chunk), group_of(log.chunks.last)
    log.base = n.base
    if chunk == x.first then
      log.base, from = x.chunk_base, x.skip
    end
    log.tail = n.entries:sub(from * ENTRY_BYTES + 1, (i + 1) * ENTRY_BYTES)
    local index = node(log, index_of(log, group))
    put(log, 'g', index.entries:sub(1, chunk % CHUNK * ENTRY_BYTES), 0)
    if group < open then
      local root = node(log, 'r')
      put(log, 'r', root.entries:sub(1, (group - x.top) * ENTRY_BYTES), root.base)
    end
    x.last = chunk
  end

  -- subtract removes n units from entry i of a chunk, which is not the newest entry.
  function store.subtract(log, chunk, i, n, subtract)
    local x, group = log.chunks, group_of(chunk)
    local field = index_of(log, group)
    local entries, index = node(log, chunk), node(log, field)
    put(log, chunk, subtract(entries.entries, i, n), entries.base)
    put(log, field, subtract(index.entries, chunk % CHUNK, n), 0)
    if group < group_of(x.last) then
      local root = node(log, 'r')
      put(log, 'r', subtract(root.entries, group - x.top, n), root.base)
    end
    if chunk == x.first and i == x.skip then
      x.front = x.front - n
    end
  end

  -- unused_fields returns the fields to delete: at most MAX_DELETED chunks that are
  -- older or newer than all entries, and the indexes of their groups.
  local function unused_fields(x)
    local fields = {}
    local function remove(chunk)
      fields[#fields + 1] = chunk
      if chunk % CHUNK == CHUNK - 1 then
        fields[#fields + 1] = 'g' .. group_of(chunk)
      end
    end
    for _ = 1, MAX_DELETED do
      if x.low < x.first then
        remove(x.low)
        x.low = x.low + 1
      elseif x.high > x.last then
        x.high = x.high - 1
        remove(x.high)
      end
    end
    return fields
  end

  function store.save(log)
    local x, fields = log.chunks, {}
    local unused = unused_fields(x)
    for field in pairs(x.written) do
      local n = x.nodes[field]
      fields[#fields + 1] = field
      fields[#fields + 1] = pack('<I4', n.base) .. n.entries
    end
    if log.held then
      fields[#fields + 1] = 'o'
      fields[#fields + 1] = log.held
    elseif log.has_field then
      unused[#unused + 1] = 'o'
    end
    fields[#fields + 1] = 'h'
    fields[#fields + 1] = pack(HEAD, log.held and HELD_LOG or LOG_FORMAT, x.low, x.first, x.last, x.high, x.top, x.oldest, x.skip, x.chunk_base, x.group_base, x.root_base, x.front, log.base, log.total) .. log.tail
    if log.stored == 'string' then
      redis.call('DEL', log.key)
    end
    redis.call('HSET', log.key, unpack(fields))
    if #unused > 0 then
      redis.call('HDEL', log.key, unpack(unused))
    end
  end

  return store
end
return log_store
end)()
-- The slow path executes the remaining runs, from the run at pos on.

-- mark_at decodes a state in the arguments of a run. It also returns the position after
-- it.
local function mark_at(pos)
  local _, a, b, c, after = unpack_from(STATE, runs, pos)
  return {a = a, b = b, c = c}, after
end

-- run executes one run on a plain state and returns the new state. It also returns the
-- position of the next run.
local function run(rule, s, verb, count, n, pos)
  local x, w = rule.x, rule.w
  if verb == TAKE then
    return take_times(x, w, s, n, count), pos
  elseif verb == REFUND then
    return x.refund(w, s, t, n), pos
  elseif verb == RESET then
    return UNUSED, pos
  elseif verb == RESERVE then
    local max_delay, after = unpack_from('<d', runs, pos)
    return x.reserve(w, s, t, n, max_delay), after
  elseif verb == CANCEL then
    local mark, after = mark_at(pos)
    return x.cancel(w, s, mark, t, n), after
  elseif verb == UNDO then
    keep_ttl = true
    local was, after_it, t0
    was, pos = mark_at(pos)
    after_it, pos = mark_at(pos)
    t0, pos = unpack_from('<d', runs, pos)
    return x.undo(w, s, was, after_it, t0, t, n), pos
  end
  return s, pos
end

-- log_of returns the log of key k, or false if the value was written by another program.
-- MGET returns nothing for a log that is a hash; see log_store.open.
local values = log_count > 0 and read_values(plain + 1, state_count)
local function log_of(k)
  if logs[k] == nil then
    logs[k] = log_store.open(KEYS[k], values[k - plain]) or false
  end
  return logs[k]
end

local ANSWER, ANSWER_BYTES = '<BBddd', 26

-- answer appends a decision about a log or slots to the reply. The second byte has a bit
-- for a log with open holds.
local function answer(log, d)
  local flags = (d.never and 1 or 0) + (log.held and 2 or 0)
  answers[#answers + 1] = pack(ANSWER, d.allowed and 1 or 0, flags, d.remaining, d.retry_after, d.reset_after)
end

-- run_log_takes takes n units count times. The takes that are allowed are executed as
-- one take of the sum. It appends the number of allowed takes, the decision about the
-- last allowed take (if any), and the decision about the first denied take (if any) to
-- the reply.
local function run_log_takes(log, rule, count, n)
  local free = log_store.answer(log, rule, 0, true).remaining
  local fit = count
  if n > 0 then
    fit = min(count, floor(free / n))
  end
  if fit > 0 and n > 0 then
    log_store.take(log, rule, fit * n)
  end
  answers[#answers + 1] = pack('<d', fit)
  if fit > 0 then
    answer(log, log_store.answer(log, rule, n, true))
  end
  if fit < count then
    answer(log, log_store.answer(log, rule, n, false))
  end
end

-- run_log executes one run on a log. It also returns the position of the next run.
local function run_log(k, rule, verb, count, n, pos)
  local log, mark = log_of(k), nil
  if verb == UNDO then
    keep_ttl = true
    mark, pos = unpack_from('<d', runs, pos)
  end
  if not log then
    answers[#answers + 1] = verb == TAKE and pack('<d', -1) or ('\255'):rep(ANSWER_BYTES)
    return pos
  elseif verb == TAKE then
    run_log_takes(log, rule, count, n)
    return pos
  elseif verb == REFUND then
    log_store.refund(log, rule, n)
  elseif verb == RESET then
    log_store.reset(log)
  elseif verb == UNDO then
    log_store.undo(log, rule, mark, n)
  end
  if verb ~= PEEK then
    n = 0
  end
  answer(log, log_store.answer(log, rule, n, log_store.fits(log, rule, n)))
  return pos
end

-- holds returns the functions for keys with open holds. They are created when they are
-- first needed.
local holds_made
local function make_holds()
-- Keys with open holds. The value of such a key is its state with the format HELD, then
-- the holds. A sliding log contains the holds as log.lua describes. The holds are HEAD
-- (flags, an instant that is not after the earliest deadline, what a unit costs, and the
-- number of changes), then a CHANGE for each change of the limit, and a RECORD for each
-- hold, in the order in which the holds began. The field m of a record is the least debt
-- of its segment or, for an algorithm that counts in windows or a log, where the units
-- were charged. See ledger.lua.
--
-- This text opens most holds, and writes the keys. Everything else is in holds.lua.
--
-- A hold has a name of 12 bytes, and a checksum of the request that opened it. A request
-- with the same name and another checksum is a conflict.
--
-- The holds of a key that have ended before their deadlines are in a sorted set, another
-- key, so that a repeated request has no effect. Each hold has two members with its
-- deadline as the score: its name, and its name with the checksum. The run has the number
-- of this key among the keys of records, or 0 if a request to open the hold cannot be a
-- repeated one.
local holds, find, sub = {}, string.find, string.sub
local HEAD, RECORD, RECORD_BYTES = '<BddI4I4', '<c12c4dddI4', 44
local SEGMENT, SEGMENT_BYTES = '<dI4', 12 -- the end of a record
local NEXT_RECORD = SEGMENT .. RECORD:sub(2) -- the end of a record, and the next one
local VALUE_HEAD = VALUE .. HEAD:sub(2)
local FIRST_RECORD = VALUE_HEAD .. RECORD:sub(2)
local OPEN_ARGS = '<c12c4dBdH'
local OK, OPENED = 0, '\6' -- a status, and a reply; the others are in holds.lua
local LEASED = 8 -- a flag of HEAD: the key has leases; the others are in holds.lua

-- By the number of a key: the ledger, if the holds were decoded; the value, if holds were
-- opened without a ledger, and the last deadline of these holds; the state, and the units
-- on lease, at the beginning of the script, after the holds that had expired were ended.
-- The state is missing or false if it is the one that was read.
local entries, opened, last_opened, base, base_leased = {}, {}, {}, {}, {}

-- ended_hold returns the deadline of a hold that has ended, if that is after t.
local function ended_hold(record, id)
  local deadline = tonumber(redis.call('ZSCORE', KEYS[state_count + record], id) or 0)
  return deadline > t and deadline or nil
end

-- ledgers returns the functions for holds that are decoded. They are created when they
-- are first needed.
local ledgers_made
-- The line below is replaced by the function make_ledgers, with ledger.lua and holds.lua.
local function make_ledgers()
local ledger = (function()
-- The debts of a ledger: the least debt of each segment, the changes of the limit, and
-- the units on lease. ledger.lua documents the fields of a ledger l.
local ledger = {}

local function less(a, a_rest, b, b_rest)
  return a < b or (a == b and a_rest < b_rest)
end

-- current_segment returns the current segment, or nil if no hold is open.
local function current_segment(l)
  local list, changes = l.list, l.changes
  if changes and changes[#changes].before == l.encoded_count + #list then
    return changes[#changes]
  end
  return list[#list] or l.encoded_count > 0 and l or nil
end

-- lower_least reduces the least debt of a segment to debt and rest, if that is lower.
local function lower_least(segment, debt, rest)
  if less(debt, rest, segment.least, segment.rest) then
    segment.least, segment.rest = debt, rest
  end
end

-- reduce_least reduces the least debt of a segment. denominator is that of the rest.
local function reduce_least(segment, reduction, reduction_rest, denominator)
  segment.least, segment.rest = segment.least - reduction, segment.rest - reduction_rest
  if segment.rest < 0 then
    segment.least, segment.rest = segment.least - 1, segment.rest + denominator
  end
end

-- unleased_debt returns the debt without that of the units on lease.
local function unleased_debt(l, t)
  local debt, rest = l.h.debt(l.w, l.s, t)
  if l.leased == 0 or l.d == 0 then
    return debt, rest
  end
  local leased = {}
  leased.least, leased.rest = times(l, l.leased)
  if less(debt, rest, leased.least, leased.rest) then
    return 0, 0
  end
  local own = {least = debt, rest = rest}
  reduce_least(own, leased.least, leased.rest, l.d)
  return own.least, own.rest
end

-- record_debt updates the least debt of the current segment, unless the algorithm has no
-- debts.
local function record_debt(l, t)
  local segment = l.d > 0 and current_segment(l)
  if segment then
    lower_least(segment, unleased_debt(l, t))
  end
end

-- merge_changes merges change i with the one before if no open hold was opened between
-- them.
local function merge_changes(l, i)
  local c, later = l.changes[i - 1], l.changes[i]
  if not c or not later or c.before ~= later.before then
    return
  end
  c.least, c.rest = max(0, c.least - later.cut), 0
  lower_least(c, later.least, later.rest)
  c.cut = c.cut + later.cut
  table.remove(l.changes, i)
end

-- append_change adds the change c, which follows the given number of open holds, if there
-- is an open hold.
local function append_change(l, before, c)
  if before > 0 then
    l.changes = l.changes or {}
    c.before, l.changes[#l.changes + 1] = before, c
    merge_changes(l, #l.changes)
  end
end

-- adopt converts the state to the present limit, and records the change of the limit.
local function adopt(l, t)
  local list, h, w = l.list, l.h, l.w
  if l.encoded_count + #list == 0 then
    return
  end
  local p, d = h.unit(w)
  if p ~= l.p or d ~= l.d then
    for i = 1, #list do
      list[i].charged_at = h.recount(w, l.s, t, list[i].charged_at, l.p)
    end
  end
  local s, cut, changed = h.adopt(w, l.s, t, l.p, l.d, l.leased)
  local from_p, from_d = l.p, l.d
  l.changed = l.changed or changed or (l.leased > 0 and (p ~= from_p or d ~= from_d))
  l.s, l.p, l.d = s, p, d
  if changed and from_d > 0 then
    local least, rest = unleased_debt(l, t)
    append_change(l, l.encoded_count + #list, {p = from_p, d = from_d, cut = cut, least = least, rest = rest})
  end
end

-- charge_again charges the open leases again at t whose units no longer count in the log,
-- or all leases; see lease.go.
local function charge_again(l, t, all)
  local list, h = l.list, l.h
  l.oldest_leased = EXACT
  for i = 1, #list do
    local lease = list[i]
    if lease.kind and lease.units > 0 then
      if all or not h.counts(l.w, t, lease.charged_at) then
        l.s = h.charge(l.w, l.s, t, lease.units)
        lease.charged_at, l.changed = h.charged_at(l.w, l.s), true
      end
      l.oldest_leased = min(l.oldest_leased, lease.charged_at)
    end
  end
end

-- spend_leased_in_log charges leases again at t whose units have aged out, or all leases
-- if fewer units count than are on lease; see lease.go.
local function spend_leased_in_log(l, t)
  local h = l.h
  if h.counts(l.w, t, l.oldest_leased) and h.counted(l.w, l.s, t) >= l.leased then
    return
  end
  charge_again(l, t, false)
  if h.counted(l.w, l.s, t) < l.leased then
    l.s = h.clear(l.s)
    charge_again(l, t, true)
  end
end

-- spend_leased is ensure_leased in a state that was converted to the present limit.
local function spend_leased(l, t)
  if l.h.is_log then
    spend_leased_in_log(l, t)
  elseif l.leased > 0 then
    local raised = l.h.raise(l.w, l.s, t, l.leased)
    l.changed = l.changed or (l.d == 0 and raised ~= l.s) -- a bucket refills; a count does not
    l.s = raised
  end
end

-- ensure_leased makes at least the units on lease spent at t.
local function ensure_leased(l, t)
  if l.leased > 0 then
    record_debt(l, t)
    adopt(l, t)
    spend_leased(l, t)
  end
end
ledger.ensure_leased = ensure_leased

-- observe is called after every change at t.
local function observe(l, t)
  ensure_leased(l, t)
  record_debt(l, t)
end

local function prepare(l, t)
  observe(l, t)
  adopt(l, t)
end

-- Corrections of a ledger: a charge is reduced as if fewer units had been charged when
-- the hold was opened, and the hold is removed.

-- change_after returns the index of the first change after hold i was opened.
local function change_after(l, i)
  local c = 1
  while l.changes and l.changes[c] and l.changes[c].before < l.encoded_count + i do
    c = c + 1
  end
  return c
end

-- unit_before returns a table with p and d of the holds that were opened before change c.
local function unit_before(l, c)
  return l.changes and l.changes[c] or l
end

-- carry_reduction converts the reduction of the debt before the change c to that after
-- it; see limitchange.go.
local function carry_reduction(c, reduction, denominator)
  local cut, rest = min(c.cut, reduction), 0
  c.cut = c.cut - cut
  reduction = reduction - cut
  if less(c.least, c.rest, reduction, 0) then
    reduction, rest = c.least, c.rest
  end
  reduce_least(c, reduction, rest, denominator)
  return reduction, rest
end

-- correct_debts corrects the least debts of all segments from that of hold first on. It
-- returns the reduction: the debt by which the state is too high. See ledger.go.
local function correct_debts(l, first, refund)
  local list, c, reduction, rest = l.list, change_after(l, first), 0, 0
  local unit = unit_before(l, c)
  for i = first, #list do
    local hold, change = list[i], l.changes and l.changes[c]
    local n = refund(hold)
    if n > 0 then
      local debt, fraction = times(unit, n)
      reduction, rest = reduction + debt, rest + fraction
      if rest >= unit.d then
        reduction, rest = reduction + 1, rest - unit.d
      end
    end
    if less(hold.least, hold.rest, reduction, rest) then
      reduction, rest = hold.least, hold.rest
    end
    reduce_least(hold, reduction, rest, unit.d)
    if change and change.before == l.encoded_count + i then
      c = c + 1
      unit = unit_before(l, c)
      reduction, rest = carry_reduction(change, reduction, unit.d)
    end
  end
  return reduction, rest
end

-- correct changes the state as if fewer units had been charged when each hold from first
-- on began: refund(hold) returns how many units fewer. See ledger.go.
local function correct(l, t, first, refund)
  local list, h = l.list, l.h
  if l.d > 0 then
    local reduction, rest = correct_debts(l, first, refund)
    l.s = h.correct(l.w, l.s, t, 0, 0, reduction, rest)
  else
    for i = #list, first, -1 do
      local n = refund(list[i])
      if n > 0 then
        l.s = h.correct(l.w, l.s, t, list[i].charged_at, n)
      end
    end
  end
  ensure_leased(l, t)
end

-- remove_from_changes updates the changes after hold i was removed.
local function remove_from_changes(l, i)
  local first, changes = change_after(l, i), l.changes
  for c = first, #changes do
    changes[c].before = changes[c].before - 1
  end
  if changes[1].before == 0 then
    table.remove(changes, 1)
  else
    merge_changes(l, first)
  end
  if #changes == 0 then
    l.changes = nil
  end
end

-- remove removes hold i. Its segment becomes part of the segment before.
local function remove(l, i)
  local list = l.list
  local hold, before = list[i], list[i - 1]
  if hold.kind then
    l.leased = l.leased - hold.units
  end
  if before and l.changes then
    local change = l.changes[change_after(l, i - 1)]
    before = change and change.before == l.encoded_count + i - 1 and change or before
  end
  if before then
    lower_least(before, hold.least, hold.rest)
  end
  for j = i, #list do
    list[j] = list[j + 1]
  end
  if l.changes then
    remove_from_changes(l, i)
  end
end

-- remove_where removes the holds for which ended returns true in one pass, as remove
-- does. It returns the earliest deadline of the others. All holds must be decoded.
local function remove_where(l, ended)
  local list, changes, total = l.list, l.changes or {}, #l.list
  local count, next_deadline, c, segment = 0, EXACT, 1, nil
  l.changes = nil
  for i = 1, total do
    local hold = list[i]
    list[i] = nil
    if not ended(hold) then
      count, segment, next_deadline = count + 1, hold, min(next_deadline, hold.deadline)
      list[count] = hold
    elseif segment then
      lower_least(segment, hold.least, hold.rest)
    end
    if changes[c] and changes[c].before == i then
      append_change(l, count, changes[c])
      segment = l.changes and l.changes[#l.changes] or segment
      c = c + 1
    end
  end
  return next_deadline
end

-- Lua implementation of ledger.go and limitchange.go; ledger.go has a worked example. A
-- ledger is a key with open holds. It is a table with these fields:
--
--   s, w, h        the state of the key, the parameters of the limit, and the functions
--                  of its algorithm; see account.go
--   list           the open holds {id, units, charged_at, deadline, least, rest} in the
--                  order in which they began. least and rest are the least debt of the
--                  segment of the hold
--   encoded_count  the number of earlier holds that were not decoded, so that they are
--                  not in the list
--   least, rest    the least debt of the segment of the last hold that was not decoded
--   p, d           the debt that a unit causes under the limit of the latest change
--   changes        the changes of the limit {before, p, d, cut, least, rest}, or nil.
--                  before is the number of holds that were opened before the change
--   leased         the units of all leases. The field kind of a lease is 1, or 2 if it
--                  continues an open lease
--   oldest_leased  a lower bound of charged_at of all leases in a log, or 0 if unknown
--   changed        true if ensure_leased has changed the records or converted the state
--
-- The texts of ledgerdebt.lua and ledgercorrect.lua precede this text.

-- functions returns the functions h for the algorithm x.
function ledger.functions(x)
  x.corrections = x.corrections or x.holds()
  local h = x.corrections
  h.take, h.answer, h.slots = x.take, x.answer, x.slots
  return h
end

-- new returns a ledger without holds, of a key with the state s under a limit w.
function ledger.new(h, w, s)
  return {h = h, w = w, s = s, list = {}, encoded_count = 0, p = 0, d = 0, leased = 0, oldest_leased = 0}
end

-- open adds a hold whose units were just charged at t, and returns it.
function ledger.open(l, t, id, units, deadline)
  local segment, least, rest = current_segment(l), nil, nil
  if not segment then
    l.p, l.d = l.h.unit(l.w)
  end
  if segment and units == 0 then
    least, rest = segment.least, segment.rest -- the state may not have been converted
  else
    least, rest = unleased_debt(l, t)
  end
  local hold = {id = id, units = units, charged_at = l.h.charged_at(l.w, l.s), deadline = deadline, least = least, rest = rest}
  l.list[#l.list + 1] = hold
  return hold
end

-- find returns the index of the hold with the id, or nil.
function ledger.find(l, id)
  local list = l.list
  for i = 1, #list do
    if list[i].id == id then
      return i
    end
  end
end

-- set changes the state to next.
function ledger.set(l, t, next)
  if l.encoded_count + #l.list > 0 then
    prepare(l, t)
    l.s = next
    observe(l, t)
  else
    l.s = next
  end
end

-- reset makes the key unused and removes all holds, but not the leases. All holds must be
-- decoded. Call expire before.
function ledger.reset(l, t)
  local list, count = l.list, 0
  for i = 1, #list do
    local lease = list[i].kind and list[i]
    list[i] = nil
    if lease then
      count, lease.least, lease.rest = count + 1, 0, 0
      list[count] = lease
    end
  end
  l.changes = nil
  l.p, l.d = l.h.unit(l.w)
  l.s = l.h.is_log and l.h.clear(l.s) or {a = 0, b = 0, c = 0}
  spend_leased(l, t)
end

-- take takes n units if they are available, and returns whether they were. A denial
-- changes nothing.
function ledger.take(l, t, n)
  local next, ok = l.h.take(l.w, l.s, t, n)
  if ok and next ~= l.s then
    ledger.set(l, t, next)
  end
  return ok
end

-- charge charges n units, whether or not they are available. With no units, it changes
-- nothing.
function ledger.charge(l, t, n)
  if n == 0 then
    return
  end
  prepare(l, t)
  l.s = l.h.charge(l.w, l.s, t, n)
  observe(l, t)
end

local function remaining(l, t)
  return l.h.answer(l.w, l.s, t, 0, 0, true).remaining
end
ledger.remaining = remaining

-- take_up_to takes n units, or all that remain if fewer do. It returns the number taken.
function ledger.take_up_to(l, t, n)
  n = min(n, remaining(l, t))
  ledger.charge(l, t, n)
  return n
end

-- The line below is replaced by the text of lease.lua.
local leases_made
local function make_leases()
-- Lua implementation of lease.go. The text of ledger.lua is around this text.
local leases = {}

-- finish ends lease i at t, of which the given number of units was spent. In a log, all
-- its units are moved to t.
function leases.finish(l, t, i, spent)
  prepare(l, t)
  local h, lease = l.h, l.list[i]
  local unspent, reduction, reduction_rest = lease.units - spent, 0, 0
  remove(l, i)
  if h.is_log then
    l.s = h.correct(l.w, l.s, t, lease.charged_at, lease.units)
    l.s = h.charge(l.w, l.s, t, spent)
  elseif unspent > 0 then
    if l.d > 0 then
      reduction, reduction_rest = times(l, unspent)
    end
    l.s = h.correct(l.w, l.s, t, lease.charged_at, unspent, reduction, reduction_rest)
  end
  observe(l, t)
end

-- expired_leases returns the leases that have expired by t, the earliest deadline first.
-- Of those with the same deadline, the one that was charged last is the first.
local function expired_leases(l, t)
  local expired = {}
  for i = 1, l.leased > 0 and #l.list or 0 do
    if l.list[i].kind and l.list[i].deadline <= t then
      expired[#expired + 1] = l.list[i]
    end
  end
  table.sort(expired, function(a, b)
    return a.deadline < b.deadline or (a.deadline == b.deadline and a.charged_at > b.charged_at)
  end)
  return expired
end

-- end_earliest ends the leases with the deadline of number first in the list expired, and
-- returns the number of the next lease. All units of these leases are spent. Their
-- records stay in the ledger, with no units.
local function end_earliest(l, expired, first)
  local h, deadline, units, i = l.h, expired[first].deadline, 0, first
  local windowed = l.d == 0 and not h.is_log -- the next window can begin at the deadline
  prepare(l, windowed and deadline - 1 or deadline)
  while expired[i] and expired[i].deadline == deadline do
    local lease = expired[i]
    if h.is_log then -- see finish
      l.s = h.correct(l.w, l.s, deadline, lease.charged_at, lease.units)
    end
    units, lease.units, i = units + lease.units, 0, i + 1
  end
  l.leased = l.leased - units
  if h.is_log then
    l.s = h.charge(l.w, l.s, deadline, units)
  end
  observe(l, deadline)
  return i
end

-- expire ends the leases that have expired by t, the earliest deadline first. It removes
-- their records in one pass.
function leases.expire(l, t)
  local expired, first = expired_leases(l, t), 1
  while expired[first] do
    first = end_earliest(l, expired, first)
  end
  if first > 1 then
    remove_where(l, function(lease)
      return lease.kind and lease.deadline <= t
    end)
  end
end

-- apply ends the lease c.previous, of which c.spent units were spent, and begins the
-- lease c.id. Either may be nil. It returns the units of the new lease, its deadline,
-- and whether the other lease was open. It returns nil if that had fewer than c.spent
-- units.
function leases.apply(l, t, c)
  local known = c.id and l.list[ledger.find(l, c.id)]
  if known then
    return known.units, known.deadline, known.kind == 2
  end
  local i, unspent = c.previous and ledger.find(l, c.previous), 0
  if i and not l.list[i].kind then
    i = nil
  elseif i then
    unspent = l.list[i].units - c.spent
    if unspent < 0 or c.spent < 0 then
      return nil
    end
    leases.finish(l, t, i, c.spent)
  end
  local previous_open = i ~= nil and i ~= false
  if not c.id then
    return 0, 0, previous_open
  end
  local room = min(c.max - l.leased, remaining(l, t)) - unspent
  if l.encoded_count + #l.list >= c.max_open then
    room = 0
  end
  local units = unspent + max(0, min(c.want, room))
  if units == 0 then
    return 0, 0, previous_open
  end
  local deadline = min(t + c.ttl, l.h.lease_end(l.w, l.s, t))
  prepare(l, t)
  l.s = l.h.charge(l.w, l.s, t, units)
  l.leased = l.leased + units
  local lease = ledger.open(l, t, c.id, units, deadline)
  lease.kind = previous_open and 2 or 1
  l.oldest_leased = min(l.oldest_leased, lease.charged_at)
  return units, deadline, previous_open
end

return leases
end
local function leases()
  leases_made = leases_made or make_leases()
  return leases_made
end
ledger.leases = leases

local function has_expired(list, t)
  for i = 1, #list do
    if list[i].deadline <= t then
      return true
    end
  end
end

-- expire ends the records that have expired by t: first the leases, whose units stay
-- spent, then the holds. If release is true, the holds are corrected as if they had
-- charged nothing. All holds must be decoded. It returns whether a record has expired,
-- and the earliest deadline of the others.
function ledger.expire(l, t, release)
  local list, before = l.list, #l.list
  if l.leased > 0 then
    leases().expire(l, t)
  end
  if release and has_expired(list, t) then
    prepare(l, t)
    correct(l, t, 1, function(hold)
      return hold.deadline <= t and hold.units or 0
    end)
  end
  local next_deadline = remove_where(l, function(hold)
    return hold.deadline <= t
  end)
  ensure_leased(l, t)
  return #list < before, next_deadline
end

-- finish ends hold i at t with the actual number of units. It corrects a lower number. It
-- charges a higher one if clip is false, and otherwise as many of the further units as
-- remain. If the number of spent units stays the same, the state is not converted to the
-- present limit.
function ledger.finish(l, t, i, actual, clip)
  local held = l.list[i].units
  if l.h.slots then
    actual = 0
  end
  if clip and actual > held then
    actual = held + min(actual - held, remaining(l, t))
  end
  if actual < held then
    local own = l.list[i]
    prepare(l, t)
    correct(l, t, i, function(hold)
      return hold == own and held - actual or 0
    end)
  elseif actual > held then
    prepare(l, t)
  end
  remove(l, i)
  if actual > held then
    l.s = l.h.charge(l.w, l.s, t, actual - held)
    observe(l, t)
  end
end

-- last_release returns the last deadline of a hold with units, or 0.
local function last_release(list)
  local last = 0
  for i = 1, #list do
    if list[i].units > 0 then
      last = max(last, list[i].deadline)
    end
  end
  return last
end

-- released_by returns the deadline at which expired holds have released n units.
local function released_by(list, n)
  local sorted, at = {}, 0
  for i = 1, #list do
    sorted[i] = list[i]
  end
  table.sort(sorted, function(one, other) return one.deadline < other.deadline end)
  for i = 1, #sorted do
    if n <= 0 then
      break
    end
    n, at = n - sorted[i].units, sorted[i].deadline
  end
  return at
end

-- answer returns the decision on a request for asked units. None of these units are spent
-- after the request. The waits of slots depend on the deadlines; see ledger.go.
function ledger.answer(l, t, asked, allowed)
  local d = l.h.answer(l.w, l.s, t, asked, 0, allowed)
  if not l.h.slots then
    return d
  end
  d.reset_after = max(0, last_release(l.list) - t)
  if not allowed and not d.never then
    d.retry_after = released_by(l.list, asked - (l.w.limit - l.s.b)) - t
  end
  return d
end

return ledger

end)()
-- The functions for keys with open holds that need a ledger. The text of ledger.lua
-- precedes this text, and holdvalue.lua is around both.
local ledgers, NOT_HELD = {}, {}
local COMMIT, EXTEND, DEBIT, TAKE_UP_TO, PEEK_SLOTS, LEASE = 8, 9, 10, 11, 12, 13 -- the verbs after OPEN

-- Flags of HEAD, and of the arguments of a run: RELEASE releases the units of a hold that
-- expires, CLIP charges no units that are not available, NO_RECORD keeps no record of the
-- hold, and ASK opens no hold: the run decides whether its units could be held.
local RELEASE, CLIP, NO_RECORD, ASK = 1, 2, 4, 16
local CHANGE, COMMIT_ARGS, EXTEND_ARGS = '<I4dI4ddI4', '<c12BdH', '<c12d'
local REPLAYED, UNKNOWN, CONFLICT, TOO_MANY, DENIED = 1, 2, 3, 4, 5 -- the statuses after OK
local HELD_REPLY = '<Bd' .. VALUE:sub(2)

-- A head with the flag LEASED is followed by the units of all leases, in 8 bytes. The
-- highest bits of a record's last field are its kind: 0 for a hold, 1 for a lease, 2 for
-- a lease that continues an open lease.
local KIND = 1073741824

local function has(flags, flag)
  return flags % (2 * flag) >= flag
end

-- log_functions are ledger.functions for a sliding log. The parameters of its limit are
-- the rule, and its state is the log, which the functions change.
local log_functions = no_debt()

function log_functions.take(rule, log, _, n)
  local ok = log_store.fits(log, rule, n)
  if ok then
    log_store.take(log, rule, n)
  end
  return log, ok
end

log_functions.is_log = true

function log_functions.clear(log)
  log_store.reset(log)
  return log
end

-- counted returns the number of units that count at an instant.
function log_functions.counted(rule, log, at)
  return log_store.counted(log, at - rule.w.period)
end

-- counts returns whether units that were spent at the instant charged_at count at another
-- one.
function log_functions.counts(rule, at, charged_at)
  return charged_at > at - rule.w.period
end

function log_functions.lease_end(rule, _, at)
  return at + rule.w.period
end

function log_functions.charge(rule, log, at, n)
  log_store.take(log, rule, n, at)
  return log
end

function log_functions.answer(rule, log, _, n, _, allowed)
  return log_store.answer(log, rule, n, allowed)
end

function log_functions.charged_at(_, log)
  return log_store.charged_at(log)
end

function log_functions.correct(rule, log, at, charged_at, n)
  log_store.correct(log, rule, at, charged_at, n)
  return log
end

-- load_from decodes all holds but the first ones, whose number is the parameter count.
-- The least debt of the last hold that is still encoded is in the ledger.
local function load_from(e, count)
  local list, at = {}, e.encoded_at + count * RECORD_BYTES
  for i = 1, e.encoded_count - count do
    local id, sum, units, deadline, m, rest, after = unpack_from(RECORD, e.encoded, at)
    list[i], at = {id = id, sum = sum, units = units, deadline = deadline, charged_at = m, least = m, rest = rest % KIND}, after
    if rest >= KIND then
      list[i].kind = floor(rest / KIND)
    end
  end
  local last = list[#list]
  last.least, last.rest = e.least, e.rest
  for i = 1, #e.list do
    list[#list + 1] = e.list[i]
  end
  e.list, e.encoded_count = list, count
  if count > 0 then
    e.least, e.rest = unpack_from(SEGMENT, e.encoded, e.encoded_at + count * RECORD_BYTES - SEGMENT_BYTES)
    e.rest = e.rest % KIND
  end
end

-- read decodes the head of the holds in the value v, from the position at on.
local function read(e, v, at)
  local changes
  e.flags, e.next_deadline, e.p, e.d, changes, at = unpack_from(HEAD, v, at)
  if e.flags >= LEASED then
    e.flags = e.flags - LEASED
    e.leased, at = unpack_from('<d', v, at)
  end
  for i = 1, changes do
    local c = {}
    e.changes = e.changes or {}
    c.before, c.p, c.d, c.cut, c.least, c.rest, at = unpack_from(CHANGE, v, at)
    e.changes[i] = c
  end
  e.encoded, e.encoded_at, e.encoded_count = v, at, (#v - at + 1) / RECORD_BYTES
  e.least, e.rest = unpack_from(SEGMENT, v, #v - SEGMENT_BYTES + 1)
  e.rest = e.rest % KIND
end

-- entry_of returns the ledger of key k. Most holds are decoded only when they are needed:
-- the first encoded_count holds are in the string encoded, from the position encoded_at
-- on, and the others in the list. The constructor has all fields, because adding a field
-- to a table is slow.
local function entry_of(k)
  local e = entries[k]
  if e then
    return e
  end
  e = {
    s = false, h = false, w = false, list = {}, encoded_count = 0, p = 0, d = 0, changes = nil, least = 0, rest = 0,
    encoded = '', encoded_at = 1, flags = 0, next_deadline = EXACT, last = last_opened[k] or 0, changed = false, write = false, leased = 0, oldest_leased = 0,
  }
  local v = opened[k] or held[k]
  if k > plain then
    e.log = logs[k]
    v = e.log.held or ''
    e.log.held = v
    if v ~= '' then
      read(e, v, 1)
    end
  elseif v ~= '' then
    read(e, v, VALUE_BYTES + 1)
    e.changed, e.write = opened[k] ~= nil, opened[k] ~= nil
  end
  entries[k] = e
  return e
end

-- use sets the state of the ledger, and the rule under which it is used.
local function use(e, rule, s)
  if e.log then
    e.h, e.w, e.s = log_functions, rule, e.log
  else
    e.h, e.w, e.s = ledger.functions(rule.x), rule.w, s
  end
end

-- begin returns the ledger of key k with the state s, after the holds that have expired
-- were ended.
local function begin(k, rule, s)
  local e = entry_of(k)
  use(e, rule, s)
  if e.encoded_count > 0 then
    local p, d = e.h.unit(e.w)
    if e.next_deadline <= t or e.changes or p ~= e.p or d ~= e.d or e.h.slots or e.log or e.leased > 0 then
      load_from(e, 0)
    end
  end
  if e.next_deadline <= t or e.leased > 0 then
    local expired
    expired, e.next_deadline = ledger.expire(e, t, has(e.flags, RELEASE))
    e.changed = e.changed or expired
  end
  if base[k] == nil then
    base[k], base_leased[k] = not opened[k] and e.s, e.leased
  end
  return e
end

-- position returns the number of the hold with the id if it is not in the list, or nil.
local function position(e, id)
  local at = e.encoded_at
  while e.encoded_count > 0 do
    local found = e.encoded:find(id, at, true)
    local i = found and (found - e.encoded_at) / RECORD_BYTES + 1
    if not found or i > e.encoded_count then
      return
    elseif i % 1 == 0 then
      return i
    end
    at = found + 1
  end
end

-- find returns the index of the hold with the id in the list, or nil. It decodes this
-- hold, the hold before it and all later ones.
local function find(e, id)
  local before = position(e, id)
  if before then
    load_from(e, max(0, before - 2))
  end
  local i = ledger.find(e, id)
  if i == 1 and e.encoded_count > 0 then
    load_from(e, e.encoded_count - 1)
    i = 2
  end
  return i
end

-- reply_with appends the result of a request for n units to the reply: its status, the
-- units that TAKE_UP_TO has taken or the deadline of the hold, and the state after the
-- request or the decision about a log or slots.
local function reply_with(e, status, value, n)
  local s, denied = e.s, status == DENIED
  if not e.log and not e.h.slots then
    answers[#answers + 1] = pack(HELD_REPLY, status, value, FORMAT, s.a, s.b, s.c, 0)
    return
  end
  answers[#answers + 1] = pack('<Bd', status, value)
  answer(e.log or NOT_HELD, ledger.answer(e, t, denied and n or 0, not denied))
end

-- reply_opened appends the result of a request that has opened a hold to the reply. For a
-- state, the caller computes the rest of the result.
local function reply_opened(e, deadline, n)
  if e.log or e.h.slots then
    reply_with(e, OK, deadline, n)
  else
    answers[#answers + 1] = OPENED
  end
end

-- check_open returns the status of a request to open a hold, or nil if it may be opened.
-- The second result is the deadline of a hold that was opened before.
local function check_open(e, id, sum, max_open, record)
  local i = position(e, id) and find(e, id) or ledger.find(e, id)
  local same, deadline
  if i then
    same, deadline = e.list[i].sum == sum, e.list[i].deadline
  elseif record > 0 then
    deadline = ended_hold(record, id)
    same = deadline and ended_hold(record, id .. sum)
  end
  if deadline then
    return same and REPLAYED or CONFLICT, deadline
  elseif e.encoded_count + #e.list >= max_open then
    return TOO_MANY
  end
end

-- add_hold opens a hold, and returns its deadline.
local function add_hold(e, id, sum, n, ttl, flags)
  local deadline = t + ttl
  ledger.open(e, t, id, n, deadline).sum = sum
  e.flags, e.next_deadline, e.last, e.changed = flags, min(e.next_deadline, deadline), max(e.last, deadline), true
  return deadline
end

local function run_open(e, n, pos)
  local id, sum, ttl, flags, max_open, record, after = unpack_from(OPEN_ARGS, runs, pos)
  local status, deadline = check_open(e, id, sum, max_open, record)
  if not status and ledger.take(e, t, n) then
    reply_opened(e, add_hold(e, id, sum, n, ttl, flags), n)
  else
    reply_with(e, status or DENIED, deadline or 0, n)
  end
  return after
end

-- keep_record keeps a hold that has ended until its deadline. If there are more than
-- max_open, it drops those with the earliest deadlines.
local function keep_record(record, hold, max_open)
  local key = KEYS[state_count + record]
  redis.call('ZREMRANGEBYSCORE', key, '-inf', t)
  redis.call('ZADD', key, hold.deadline, hold.id, hold.deadline, hold.id .. hold.sum)
  local excess = redis.call('ZCARD', key) - 2 * max_open
  if excess > 0 then
    redis.call('ZREMRANGEBYRANK', key, '0', excess - 1)
  end
  extend_ttl(key, ttl_end(hold.deadline))
end

local function run_commit(e, n, pos)
  local id, flags, max_open, record, after = unpack_from(COMMIT_ARGS, runs, pos)
  local i, status = find(e, id), OK
  if i then
    if not has(flags, NO_RECORD) then
      keep_record(record, e.list[i], max_open)
    end
    ledger.finish(e, t, i, n, has(flags, CLIP))
    e.changed = true
  elseif record > 0 and ended_hold(record, id) then
    status = REPLAYED
  else
    status = UNKNOWN
  end
  reply_with(e, status, 0, n)
  return after
end

local function run_extend(e, pos)
  local id, ttl, after = unpack_from(EXTEND_ARGS, runs, pos)
  local i, deadline = find(e, id), t + ttl
  if i then
    e.list[i].deadline = deadline
    e.next_deadline, e.last, e.changed = min(e.next_deadline, deadline), max(e.last, deadline), true
  end
  reply_with(e, i and OK or UNKNOWN, i and deadline or 0, 0)
  return after
end

-- run_adjust executes DEBIT and TAKE_UP_TO.
local function run_adjust(e, verb, n)
  if verb == TAKE_UP_TO then
    n = ledger.take_up_to(e, t, n)
  else
    ledger.charge(e, t, n)
  end
  reply_with(e, OK, n, n)
end

local LEASE_ARGS, LEASE_REPLY, NO_ID = '<c12dc12ddd', '<ddBd', ('\0'):rep(12)
local UP_TO_ARGS, NO_SUM = '<c12dB', ('\0'):rep(4)

-- run_lease ends a lease, begins a lease, or both. The reply has the deadline of the
-- lease, the units that are then on lease, the status, and the units of the lease.
local function run_lease(e, n, pos)
  local c, after = {want = n}, nil
  c.previous, c.spent, c.id, c.max, c.ttl, c.max_open, after = unpack_from(LEASE_ARGS, runs, pos)
  c.previous, c.id = c.previous ~= NO_ID and c.previous, c.id ~= NO_ID and c.id
  local units, deadline, previous_open = ledger.leases().apply(e, t, c)
  local status, newest = previous_open and REPLAYED or OK, e.list[#e.list]
  if not units then
    units, deadline, status = 0, 0, CONFLICT
  elseif previous_open or units > 0 then
    e.changed = true
  end
  if units > 0 then
    newest.sum = newest.sum or NO_SUM
    e.next_deadline, e.last = min(e.next_deadline, deadline), max(e.last, deadline)
  end
  local s = e.s
  if e.log then
    answers[#answers + 1] = pack(LEASE_REPLY, deadline, e.leased, status, units)
    answer(e.log, ledger.answer(e, t, 1, log_store.fits(e.log, e.w, 1)))
  else
    answers[#answers + 1] = pack('<dd', deadline, e.leased) .. pack(HELD_REPLY, status, units, FORMAT, s.a, s.b, s.c, 0)
  end
  return after
end

-- run_lowering executes RESET, and REFUND on a log. Units on lease stay spent.
local function run_lowering(e, rule, verb, n)
  if verb == REFUND then
    log_store.refund(e.log, rule, n)
    ledger.ensure_leased(e, t)
  else
    if e.leased == 0 then -- no hold needs to be decoded
      e.list, e.encoded_count = {}, 0
    end
    ledger.reset(e, t)
    e.changed = true
  end
  if e.log then
    answer(e.log, log_store.answer(e.log, rule, 0, true))
  end
end

-- skip_log returns the position after a run on a log that another program wrote. The verb
-- is one of holds.
local function skip_log(verb, pos)
  if verb == LEASE then
    answers[#answers + 1] = pack('<ddBd', 0, 0, OK, 0) .. ('\255'):rep(ANSWER_BYTES)
    return select(7, unpack_from(LEASE_ARGS, runs, pos))
  end
  answers[#answers + 1] = pack('<Bd', OK, 0) .. ('\255'):rep(ANSWER_BYTES)
  if verb <= EXTEND then
    local args = {unpack_from(verb == OPEN and OPEN_ARGS or verb == COMMIT and COMMIT_ARGS or EXTEND_ARGS, runs, pos)}
    pos = args[#args]
  end
  return pos
end

-- run executes one run on key k, which has open holds or whose verb is one of holds. It
-- returns the new state, if the key has one, and the position of the next run.
function ledgers.run(k, rule, s, verb, count, n, pos)
  if k > plain and not logs[k] then
    return nil, skip_log(verb, pos)
  end
  local e = begin(k, rule, s)
  e.write = e.write or verb ~= PEEK and verb ~= PEEK_SLOTS
  if verb == OPEN then
    pos = run_open(e, n, pos)
  elseif verb == COMMIT then
    pos = run_commit(e, n, pos)
  elseif verb == EXTEND then
    pos = run_extend(e, pos)
  elseif verb == PEEK_SLOTS then
    local _, fits = e.h.take(e.w, e.s, t, n)
    reply_with(e, fits and OK or DENIED, 0, n)
  elseif verb == LEASE then
    pos = run_lease(e, n, pos)
  elseif verb >= DEBIT then
    run_adjust(e, verb, n)
  elseif verb == RESET or (verb == REFUND and e.log) then
    run_lowering(e, rule, verb, n)
  elseif e.log then
    pos = run_log(k, rule, verb, count, n, pos)
  else
    local next
    next, pos = run(rule, e.s, verb, count, n, pos)
    if next ~= e.s then
      ledger.set(e, t, next)
    end
  end
  return e.s, pos
end

-- load returns the state of key k after the holds that have expired were ended. write is
-- whether the key may be written.
function ledgers.load(k, rule, s, write)
  local e = begin(k, rule, s)
  e.write = write
  return e.s
end

-- take is rule.x.take on key k, for units that are available.
function ledgers.take(k, rule, s, n)
  local e = entry_of(k)
  use(e, rule, s)
  ledger.take(e, t, n)
  return e.s
end

-- answer appends the decision about the debit c of slots to the reply.
function ledgers.answer(c)
  local e = held[c.k] and entry_of(c.k) or ledger.new()
  use(e, c.rule, states[c.k])
  answer(NOT_HELD, ledger.answer(e, t, c.asked, c.fits))
end

-- open_all opens a hold on every key, or on none: if a key denies, if a hold exists
-- already, or if a key has too many.
function ledgers.open_all()
  local list, ok, total_of, added, replayed = {}, true, {}, {}, false
  while pos <= size do
    local k, r, n, c, _
    k, r, _, _, n, pos = unpack_from(RUN, runs, pos)
    c = {k = k, rule = rules[r], n = n}
    c.id, c.sum, c.ttl, c.flags, c.max_open, c.record, pos = unpack_from(OPEN_ARGS, runs, pos)
    local log, fits = k > plain and log_of(k), nil
    c.e = begin(k, c.rule, states[k])
    c.e.write = true
    last_rule[k], states[k] = c.rule, c.e.s
    c.asks = has(c.flags, ASK)
    if not c.asks then
      c.status, c.deadline = check_open(c.e, c.id, c.sum, c.max_open - (added[k] or 0), c.record)
    end
    if not c.status then
      c.asked = n
      if not c.asks then -- as if the earlier holds of the key had been opened
        added[k], total_of[k] = (added[k] or 0) + 1, (total_of[k] or 0) + n
        c.asked = n > 0 and total_of[k] or 0
      end
      if log then
        fits = log_store.fits(log, c.rule, c.asked)
      else
        _, fits = c.rule.x.take(c.rule.w, c.e.s, t, c.asked)
      end
      c.status = not fits and DENIED or nil
    end
    ok = ok and (c.asks or not c.status)
    replayed = replayed or c.status == REPLAYED
    list[#list + 1] = c
  end
  for i = 1, replayed and #list or 0 do
    -- the same request was executed before, and some of its keys have been reset since
    if list[i].status ~= CONFLICT then list[i].status = REPLAYED end
  end
  for i = 1, #list do
    local c = list[i]
    use(c.e, c.rule, states[c.k])
    if ok and not c.asks then
      ledger.take(c.e, t, c.n)
      local deadline = add_hold(c.e, c.id, c.sum, c.n, c.ttl, c.flags)
      states[c.k] = c.e.s
      reply_opened(c.e, deadline, c.asked or c.n)
    else
      reply_with(c.e, c.status or OK, c.deadline or 0, c.asked or c.n)
    end
  end
end

-- take_up_to_all takes as many units as remain under every run, but at most the units of
-- the run. A run with a TTL opens a hold for these units.
function ledgers.take_up_to_all()
  local list, runs_of, granted = {}, {}, EXACT
  while pos <= size do
    local c, k, r, n, _ = {}, nil, nil, nil, nil
    k, r, _, _, n, pos = unpack_from(RUN, runs, pos)
    c.id, c.ttl, c.flags, pos = unpack_from(UP_TO_ARGS, runs, pos)
    if k > plain then
      log_of(k)
    end
    c.k, c.rule, c.e = k, rules[r], begin(k, rules[r], states[k])
    c.e.write, last_rule[k], states[k] = true, c.rule, c.e.s
    runs_of[k], granted = (runs_of[k] or 0) + 1, min(granted, n)
    list[#list + 1] = c
  end
  for i = 1, #list do
    local c = list[i]
    use(c.e, c.rule, states[c.k])
    granted = min(granted, floor(ledger.remaining(c.e, t) / runs_of[c.k]))
  end
  for i = 1, #list do
    local c = list[i]
    use(c.e, c.rule, states[c.k])
    ledger.take(c.e, t, granted)
    if c.ttl > 0 and granted > 0 then
      add_hold(c.e, c.id, NO_SUM, granted, c.ttl, c.flags)
    end
    states[c.k] = c.e.s
  end
  for i = 1, #list do -- all runs on a key have the state after the last of them
    local c = list[i]
    use(c.e, c.rule, states[c.k])
    reply_with(c.e, OK, granted, granted)
  end
end

-- encode_holds returns the holds as they are stored.
local function encode_holds(e)
  local list, changes = e.list, e.changes
  local flags = e.flags + (e.leased > 0 and LEASED or 0)
  local parts = {pack(HEAD, flags, e.next_deadline, e.p, e.d, changes and #changes or 0)}
  if e.leased > 0 then
    parts[2] = pack('<d', e.leased)
  end
  for i = 1, changes and #changes or 0 do
    local c = changes[i]
    parts[#parts + 1] = pack(CHANGE, c.before, c.p, c.d, c.cut, c.least, c.rest)
  end
  if e.encoded_count > 0 then
    parts[#parts + 1] = e.encoded:sub(e.encoded_at, e.encoded_at + e.encoded_count * RECORD_BYTES - SEGMENT_BYTES - 1)
    parts[#parts + 1] = pack(SEGMENT, e.least, e.rest)
  end
  for i = 1, #list do
    local hold = list[i]
    local m = hold.least
    if e.d == 0 then
      m = hold.charged_at
    end
    parts[#parts + 1] = pack(RECORD, hold.id, hold.sum, hold.units, hold.deadline, m, hold.rest + (hold.kind or 0) * KIND)
  end
  return concat(parts)
end

local function last_deadline(e)
  if e.encoded_count > 0 then
    load_from(e, 0)
  end
  local last = 0
  for i = 1, #e.list do
    last = max(last, e.list[i].deadline)
  end
  return last
end

-- encode_log is holds.encode_log for a log that was used.
function ledgers.encode_log(k)
  local e, log = entries[k], logs[k]
  if not e.write then
    return false
  end
  log.held = nil
  if #e.list > 0 then
    log.held, log.last_deadline = encode_holds(e), last_deadline(e)
    if e.leased > 0 then
      log.last_deadline = log.last_deadline + e.w.w.period -- its units then count
    end
  end
  log.changed = log.changed or e.changed
  return true
end

ledgers.entry_of, ledgers.encode, ledgers.last_deadline = entry_of, encode_holds, last_deadline
return ledgers
end
local function ledgers()
  ledgers_made = ledgers_made or make_ledgers()
  return ledgers_made
end
holds.ledgers = ledgers

-- run_decoded executes one run on key k with the ledger of the key.
local function run_decoded(...)
  return ledgers().run(...)
end

-- run executes one run on key k, which has open holds or whose verb is one of holds. It
-- returns the new state, if the key has one, and the position of the next run. In the
-- usual case it opens a hold without a ledger: it appends a record to the value.
function holds.run(k, rule, s, verb, count, n, pos)
  local x, w, v = rule.x, rule.w, opened[k] or held[k]
  if verb ~= OPEN or k > plain or entries[k] or x.slots or n == 0 then
    return run_decoded(k, rule, s, verb, count, n, pos)
  end
  local id, sum, ttl, flags, max_open, record, after = unpack_from(OPEN_ARGS, runs, pos)
  local h = x.corrections
  if not h then
    h = x.holds()
    x.corrections = h
  end
  local p, d = h.unit(w)
  local deadline, least, rest, at = t + ttl, 0, 0, nil
  local earliest = deadline
  if v ~= '' then
    local held_flags, next_deadline, held_p, held_d, changes, _, converted
    held_flags, next_deadline, held_p, held_d, changes, at = unpack_from(HEAD, v, VALUE_BYTES + 1)
    _, _, converted = h.adopt(w, s, t, p, d, 0)
    if next_deadline <= t or held_flags >= LEASED or changes > 0 or converted or held_p ~= p or held_d ~= d then
      return run_decoded(k, rule, s, verb, count, n, pos)
    elseif find(v, id, at, true) or #v - at + 1 >= max_open * RECORD_BYTES then
      return run_decoded(k, rule, s, verb, count, n, pos)
    elseif next_deadline < deadline then
      earliest = next_deadline
    end
    least, rest = unpack_from(SEGMENT, v, #v - SEGMENT_BYTES + 1)
  end
  local next, ok = x.take(w, s, t, n)
  if not ok or (record > 0 and ended_hold(record, id)) then
    return run_decoded(k, rule, s, verb, count, n, pos)
  end
  local m, m_rest
  if d == 0 then
    m, m_rest = h.charged_at(w, next), 0
  else
    m, m_rest = h.debt(w, next, t)
  end
  local expiry, last = server_clock and expires_at[k] or 0, last_opened[k]
  if v == '' then
    v = pack(FIRST_RECORD, HELD, next.a, next.b, next.c, expiry, flags, earliest, p, d, 0, id, sum, n, deadline, m, m_rest)
  else
    if d > 0 then
      local debt, debt_rest = h.debt(w, s, t) -- not above m
      if debt < least or (debt == least and debt_rest < rest) then
        least, rest = debt, debt_rest
      end
    end
    v = pack(VALUE_HEAD, HELD, next.a, next.b, next.c, expiry, flags, earliest, p, d, 0) .. sub(v, at, -SEGMENT_BYTES - 1)
      .. pack(NEXT_RECORD, least, rest, id, sum, n, deadline, m, m_rest)
  end
  opened[k], last_opened[k], answers[#answers + 1] = v, last and last > deadline and last or deadline, OPENED
  return next, after
end

-- encode_log stores the holds of log k in the log. It returns whether the log may be
-- saved; see save.
function holds.encode_log(k)
  return not entries[k] or ledgers().encode_log(k)
end

-- found returns the state of key k at the beginning of the script as it is in the reply.
-- v is the value that was read, and s its state. If holds have expired, or some units
-- are on lease, the last field is −1 less the units on lease.
function holds.found(k, v, s)
  local was, leased = base[k] or s or UNUSED, base_leased[k] or 0
  if was ~= (s or UNUSED) or leased > 0 then
    return pack(VALUE, FORMAT, was.a, was.b, was.c, -1 - leased)
  elseif held[k] == '' then
    return v
  end
  return sub(v, 1, VALUE_BYTES)
end

-- encode returns the value of key k with the state s.
local function encode(k, s, expiry)
  local e = entries[k]
  return pack(VALUE, HELD, s.a, s.b, s.c, expiry) .. (e and ledgers().encode(e) or sub(opened[k], VALUE_BYTES + 1))
end

-- save writes key k with the state s if it has open holds. It returns false if it has
-- none; the state is then written as any other. A peek writes nothing: a hold that has
-- expired at its instant may still be open for a later call with an earlier instant.
--
-- The expiry of the key is stored and extended as that of a plain state. It is after all
-- deadlines, so only the new ones are compared with it.
function holds.save(k, rule, s)
  local e, key, last = entries[k], KEYS[k], last_opened[k]
  local current = server_clock and expires_at[k] or 0
  if not e and current == 0 and held[k] ~= '' then
    e = ledgers().entry_of(k)
  end
  if e then
    if not e.write then
      return true
    elseif e.encoded_count + #e.list == 0 then
      if held[k] ~= '' then
        expires_at[k] = nil -- it is that of a value with holds
      end
      return false
    end
    last = current > 0 and e.last or ledgers().last_deadline(e)
  end
  local reset_at = rule.x.reset_at(rule.w, s)
  if e and e.leased > 0 then -- the units refill when the lease has ended
    reset_at = max(reset_at, rule.x.reset_at(rule.w, e.h.raise(rule.w, s, max(last, t), e.leased)))
  end
  local needed = ttl_end(reset_at > last and reset_at or last)
  if e and not e.changed and s == base[k] then
    extend_ttl(key, max(needed, current))
  elseif current >= needed and plain > 1 and mode == EACH then
    local v = e and encode(k, s, current) or opened[k]
    if #v < #before[k] then
      redis.call('SET', key, v, 'KEEPTTL')
    else
      redis.call('SETRANGE', key, '0', v)
    end
  else
    local stored = 0
    if server_clock then
      needed = max(current, needed + max(MIN_EXTRA, min(MAX_EXTRA, needed - floor(t / 1000))))
      stored = needed
    end
    if before[k] and current == 0 then
      needed = max(needed, current_ttl(key))
      stored = server_clock and needed or 0
    end
    redis.call('SET', key, encode(k, s, stored), SET_TTL, needed)
  end
  return true
end

return holds
end
local function holds()
  holds_made = holds_made or make_holds()
  return holds_made
end

-- run_each executes the runs one after another, each independently.
local function run_each()
  while pos <= size do
    local k, r, verb, count, n, _
    k, r, verb, count, n, pos = unpack_from(RUN, runs, pos)
    local rule = rules[r]
    if k <= plain or verb ~= PEEK then
      last_rule[k] = rule
    end
    local log = k > plain and log_of(k)
    if k > plain and verb < OPEN and not (log and log.held) then
      pos = run_log(k, rule, verb, count, n, pos)
    elseif k > plain then
      _, pos = holds().run(k, rule, nil, verb, count, n, pos)
    elseif held[k] or verb >= OPEN then
      if not held[k] then
        held[k] = ''
      end
      holds_made = holds_made or make_holds()
      states[k], pos = holds_made.run(k, rule, states[k], verb, count, n, pos)
    else
      states[k], pos = run(rule, states[k], verb, count, n, pos)
    end
  end
end

-- read_debits decodes the runs as debits and checks each debit as if the earlier ones
-- had been taken. It returns the debits, and whether all are allowed.
local function read_debits()
  local list, total_of, ok = {}, {}, true
  while pos <= size do
    local k, r, n, _
    k, r, _, _, n, pos = unpack_from(RUN, runs, pos)
    local c = {k = k, rule = rules[r], n = n, asked = n}
    total_of[k] = (total_of[k] or 0) + n
    if n > 0 then
      c.asked = total_of[k]
    end
    last_rule[k] = last_rule[k] or c.rule
    if held[k] then
      states[k] = holds().ledgers().load(k, c.rule, states[k], mode == ALL)
    end
    if k > plain then
      local log = log_of(k)
      if log.held then
        holds().ledgers().load(k, c.rule, nil, mode == ALL)
      end
      c.fits = log_store.fits(log, c.rule, c.asked)
    else
      _, c.fits = c.rule.x.take(c.rule.w, states[k], t, c.asked)
    end
    ok = ok and c.fits
    list[#list + 1] = c
  end
  return list, ok
end

-- apply_debits takes all debits, which are allowed together.
local function apply_debits(list)
  for i = 1, #list do
    local c = list[i]
    local k, rule = c.k, c.rule
    if k <= plain then
      local take = held[k] and holds().ledgers().take
      states[k] = take and take(k, rule, states[k], c.n) or rule.x.take(rule.w, states[k], t, c.n)
      last_rule[k] = rule
    else
      log_store.take(log_of(k), rule, c.n)
    end
  end
end

-- run_all takes all runs, or none if one is denied.
local function run_all()
  local list, ok = read_debits()
  local spent = ok and mode == ALL
  if spent then
    apply_debits(list)
  end
  for i = 1, #list do
    local c = list[i]
    if c.k > plain then
      answer(log_of(c.k), log_store.answer(log_of(c.k), c.rule, spent and c.n or c.asked, spent or c.fits))
    elseif c.rule.x.slots then
      holds().ledgers().answer(c)
    end
  end
end

if mode == EACH then
  run_each()
elseif mode >= OPEN_ALL then
  for k = 1, plain do
    held[k] = held[k] or ''
  end
  if mode == OPEN_ALL then
    holds().ledgers().open_all()
  else
    holds().ledgers().take_up_to_all()
  end
else
  run_all()
end
holds_of = holds_made
for k = plain + 1, state_count do
  local used = logs[k] and last_rule[k] and mode ~= PEEK_ALL -- a peek may use another limit
  if used and (not holds_made or holds_made.encode_log(k)) then
    log_store.save(logs[k], last_rule[k])
  end
end
end
-- Write the states that changed, and make sure that every key has a TTL. A key whose
-- state is unused is deleted. If the caller passed the instant, an unused state is
-- kept, because the caller may pass an earlier instant next time.
--
-- A key that is written again gets a longer TTL than its state needs, and the instant
-- of expiry is stored with the state. Most later writes then need not set the TTL:
-- writing the string in place costs a third of SET. A call for one key and an
-- all-or-nothing call always set the TTL, which restores a TTL that was removed.
local reply, now_ms = {pack('<d', t)}, floor(t / 1000)
for k = 1, plain do
  local key, s, v, rule = KEYS[k], states[k], before[k], last_rule[k]
  local was = found[k]
  if held[k] then
    found[k] = nil -- its value is not that of a plain state
  end
  if not foreign[k] and not (held[k] and holds_of.save(k, rule, s)) then
    local reset_at = rule.x.reset_at(rule.w, s)
    -- The state may still matter under the limit with which it was written. If its
    -- expiry is not stored, the key has the TTL of an instant that a caller passed.
    -- An undo can restore a state that matters under another limit only; it keeps the
    -- TTL.
    local kept = keep_ttl or s == found[k] and (expires_at[k] == 0 or expires_at[k] >= now_ms)
    if (server_clock and reset_at <= t and not kept) or (s.a == 0 and s.b == 0 and s.c == 0) then
      if v then
        redis.call('DEL', key)
      elseif state_count > 1 and type(redis.pcall('GET', key)) == 'table' then
        foreign[k] = true -- not a string: MGET returns nothing for it
      end
    else
      local needed, current = ttl_end(reset_at), server_clock and expires_at[k] or 0
      if not v then
        if not redis.call('SET', key, pack(VALUE, FORMAT, s.a, s.b, s.c, server_clock and needed or 0), SET_TTL, needed, 'NX') then
          foreign[k] = true
        end
      elseif current >= needed and plain > 1 and mode == EACH then
        if s ~= found[k] then
          redis.call('SETRANGE', key, '0', pack(VALUE, FORMAT, s.a, s.b, s.c, current))
        end
      elseif s == found[k] and server_clock and expires_at[k] > 0 then
        redis.call(EXPIRE, key, max(needed, current))
      elseif s == found[k] then
        -- The expiry is not stored, or it is by the server's clock and the instant by
        -- the caller's.
        extend_ttl(key, needed)
      else
        if server_clock then
          needed = max(current, needed + max(MIN_EXTRA, min(MAX_EXTRA, needed - now_ms)))
        else
          needed = ttl_of_write(key, reset_at)
        end
        redis.call('SET', key, pack(VALUE, FORMAT, s.a, s.b, s.c, server_clock and needed or 0), SET_TTL, needed)
      end
    end
  end
  if held[k] and not foreign[k] then
    v = holds_of.found(k, v, was)
  end
  reply[k + 1] = foreign[k] and FOREIGN or v or ABSENT
end
for i = 1, #answers do
  reply[plain + 1 + i] = answers[i]
end
return concat(reply)

end

local ALGORITHMS = {"token_bucket", "token_bucket_interval", "fixed_window", "sliding_log", "sliding_window", "leaky_bucket"}

-- The last part of headgate-v1.lua: one operation on one key, with readable arguments.
-- It translates the arguments for the script of this store and executes that script.

-- ALGORITHMS, the names of the algorithms in the order of their numbers, and decide, the
-- script of this store, are declared before this part.

local CHECK, PEEK, REFUND, RESET = 0, 1, 2, 3
local VERBS = {check = CHECK, peek = PEEK, refund = REFUND, reset = RESET}
local CONTINUOUS = {token_bucket = true, leaky_bucket = true}
local MAX_FILL = 3155760000000000 -- µs; 100 years

local function usage(problem)
  error('HEADGATE_USAGE ' .. problem)
end

-- whole returns an argument that must be a whole number in a range.
local function whole(i, name, lowest, highest)
  local n = tonumber(ARGV[i])
  if not n or n ~= floor(n) or n < lowest or n > highest then
    usage(name .. ' is ' .. tostring(ARGV[i]) .. string.format('; must be a whole number from %.0f to %.0f', lowest, highest))
  end
  return n
end

-- hash_step multiplies a hash of 64 bits by the prime of FNV-1a, 2^40 + 435, after it
-- combined the lowest byte with a byte. The hash consists of four digits in base 2^16.
local function hash_step(h, byte)
  local a, b, c, d = bit.bxor(h[1], byte), h[2], h[3], h[4]
  local p1, p2, p3, p4 = a * 435, b * 435, c * 435 + a % 256 * 256, d * 435 + b % 256 * 256 + floor(a / 256)
  h[1] = p1 % 65536
  p2 = p2 + floor(p1 / 65536)
  h[2] = p2 % 65536
  p3 = p3 + floor(p2 / 65536)
  h[3] = p3 % 65536
  h[4] = (p4 + floor(p3 / 65536)) % 65536
end

-- fingerprint_of returns the fingerprint of a limit; see fingerprint in
-- algo/tokenbucket.go.
local function fingerprint_of(numbers)
  local h = {8997, 33826, 40164, 52210} -- 14695981039346656037
  for i = 1, #numbers do
    local n = numbers[i]
    for _ = 1, 8 do
      hash_step(h, n % 256)
      n = floor(n / 256)
    end
  end
  local rest, modulus = 0, 1073741823 -- 2^30 − 1
  for i = 4, 1, -1 do
    rest = (rest * 65536 + h[i]) % modulus
  end
  return rest + 1
end

local function gcd(a, b)
  while b > 0 do
    a, b = b, a % b
  end
  return a
end

-- terms_of returns the parameters that the algorithm expects; see Params in algo.
local function terms_of(name, rate, period, capacity)
  if name == 'token_bucket_interval' then
    return {rate, period, capacity}
  elseif not CONTINUOUS[name] then
    return {rate, period}
  end
  local g = gcd(period, rate)
  local p, d = period / g, rate / g
  local unit, unit_r = mul_div(1, p, d)
  local full, full_r = mul_div(capacity, p, d)
  return {capacity, p, d, unit, unit_r, full, full_r, fingerprint_of({rate, period, capacity})}
end

if #KEYS ~= 1 then
  usage('one key is required')
end
local verb, name = VERBS[ARGV[1]], ARGV[2]
if not verb then
  usage('the verb is ' .. tostring(ARGV[1]) .. '; must be check, peek, refund or reset')
end
local number
for i = 1, #ALGORITHMS do
  if ALGORITHMS[i] == name then
    number = i
  end
end
if not number then
  usage('the algorithm is ' .. tostring(name) .. '; must be ' .. table.concat(ALGORITHMS, ', '))
end
local max_rate = name == 'fixed_window' and MAX_EXACT or 1000000000
local rate = whole(3, 'rate', 1, max_rate)
local period = whole(4, 'period', 1000, 31622400000000)
local capacity = whole(5, 'capacity', 1, max_rate)
local cost = whole(6, 'cost', 0, MAX_EXACT)
local at = ARGV[7] and whole(7, 'instant', 0, MAX_EXACT - MAX_FILL) or -1
local log = name == 'sliding_log'
if (log or name == 'fixed_window' or name == 'sliding_window') and capacity ~= rate then
  usage('a window has no capacity of its own: it must be the rate')
elseif capacity * period / rate > MAX_FILL then
  usage('capacity·period/rate must be at most 100 years')
end

local terms = terms_of(name, rate, period, capacity)
local head = struct.pack('<dBHHHBB', at, 0, log and 0 or 1, log and 1 or 0, 1, number, #terms)
for i = 1, #terms do
  head = head .. struct.pack('<d', terms[i])
end
local run = struct.pack('<HHBI4d', 1, 1, verb, 1, cost)
local text = decide(KEYS, {head, run})

-- reply_of returns the reply for a decision: whole numbers, times in µs.
local function reply_of(allowed, never, remaining, retry_after, reset_after, delay)
  return {allowed and 1 or 0, capacity, remaining, retry_after, reset_after, delay, never and 1 or 0}
end

if log then
  local pos = verb == CHECK and 17 or 9 -- after a number of takes
  if #text < pos + 25 or text:byte(pos) == 255 then
    error('HEADGATE_FOREIGN')
  end
  local allowed, never, remaining, retry_after, reset_after = struct.unpack('<BBddd', text, pos)
  return reply_of(allowed == 1, never == 1, remaining, retry_after, reset_after, 0)
end

-- For other algorithms the text contains the state before the operation. Repeating the
-- operation gives the decision.
local t, format, a, b, c = struct.unpack('<dBdI4I4', text)
if format == 255 then
  error('HEADGATE_FOREIGN')
end
local x = algorithm_of(number)
local w = x.new(terms)
local state, allowed, asked, spent = {a = a, b = b, c = c}, true, 0, 0
if verb == CHECK or verb == PEEK then
  local next
  next, allowed = x.take(w, state, t, cost)
  asked = cost
  if verb == CHECK and allowed then
    state, spent = next, cost
  end
elseif verb == REFUND then
  state = x.refund(w, state, t, cost)
else
  state = {a = 0, b = 0, c = 0}
end
local d = x.answer(w, state, t, asked, spent, allowed)
return reply_of(d.allowed, d.never, d.remaining, d.retry_after, d.reset_after, d.delay)
