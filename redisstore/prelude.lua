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

