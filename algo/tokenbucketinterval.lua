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
