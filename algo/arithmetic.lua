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
