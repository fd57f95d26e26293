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
