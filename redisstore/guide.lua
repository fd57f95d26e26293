-- The token bucket of the Redis guides. This script executes the same steps as the
-- scripts in the guides, with the same floating-point numbers, so that all of them get
-- the same results for a shared bucket: a hash with the fields tokens and last_refill,
-- in seconds. In addition, this script returns more details, uses the server's clock,
-- and sets a TTL.
--
-- ARGV: capacity, tokens per interval, interval in seconds, verb, units, and optionally
-- an instant in seconds and µs. Without an instant the server's clock is used. The
-- reply is one string: whether the request is allowed, the remaining tokens,
-- last_refill, and the seconds and µs of the instant.

local TAKE, PEEK, REFUND, RESET = 0, 1, 2, 3
local DAY, LONGEST = 86400, 4e9 -- seconds; LONGEST is above the longest fill time

local key = KEYS[1]
local capacity, rate, interval = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local verb, n = tonumber(ARGV[4]), tonumber(ARGV[5])
local seconds, micros = tonumber(ARGV[6]), tonumber(ARGV[7])
if not seconds then
  local clock = redis.call('TIME')
  seconds, micros = tonumber(clock[1]), tonumber(clock[2])
end
local now = seconds + micros / 1000000

-- The key is the caller's text. A value that is not a hash with exactly these two fields
-- belongs to another program and stays as it is, also in a RESET: HLEN or this check
-- fails.
local size = redis.call('HLEN', key)
local fields = redis.call('HMGET', key, 'tokens', 'last_refill')
if size > 0 and (size ~= 2 or not fields[1] or not fields[2]) then
  error('HEADGATE_FOREIGN')
end
if verb == RESET then
  redis.call('DEL', key)
  fields = {}
end
local tokens, last_refill = tonumber(fields[1] or ''), tonumber(fields[2] or '')
-- A field that is not a finite number counts as missing.
local missing = not tokens or not last_refill or tokens - tokens ~= 0 or last_refill - last_refill ~= 0
if missing then
  tokens, last_refill = capacity, now
end
tokens = math.min(capacity, tokens) -- more were stored under a larger capacity

local refills = math.floor((now - last_refill) / interval)
if refills > 0 then
  tokens = math.min(capacity, tokens + refills * rate)
  last_refill = last_refill + refills * interval
end

local allowed = true
if verb == TAKE or verb == PEEK then
  allowed = n == 0 or tokens >= n
  if allowed and verb == TAKE then
    tokens = tokens - n
  end
elseif verb == REFUND then
  tokens = math.min(capacity, tokens + n)
end

-- A bucket is kept for a day after it is full, so that the refill intervals of a client
-- that returns within the day continue unchanged. A request that changes nothing only
-- extends the TTL.
local changed = n > 0 and ((verb == TAKE and allowed) or (verb == REFUND and not missing))
if changed then
  redis.call('HSET', key, 'tokens', tokens, 'last_refill', last_refill)
end
if changed or not missing then
  local full = math.ceil(math.max(0, capacity - tokens) / rate) * interval
  local ttl = math.ceil((math.min(LONGEST, math.max(0, last_refill + full - now)) + DAY) * 1000)
  if changed or redis.call('PTTL', key) < ttl then
    redis.call('PEXPIRE', key, ttl)
  end
end
return struct.pack('<Bdddd', allowed and 1 or 0, tokens, last_refill, seconds, micros)
