-- Decides a list of runs on the states of KEYS, at one instant, and writes back what changed: the one script of this store. Before
-- it stand arithmetic.lua and algorithm_of, which gives an algorithm's functions by its number.
--
-- ARGV[1] is the head: the instant in µs, or -1 for this server's clock; the mode; how many keys hold plain states, which stand
-- before those that hold logs; and the rules, each with its algorithm and its terms. ARGV[2] is the runs, one behind the other: key,
-- rule, verb, how many times, units, and what the verb needs besides. Numbers are packed by struct, little-endian.
--
-- The reply is one string: the instant, then for each plain state what it was before (the caller takes the same steps to the
-- answers), then for each run on a log its answer.

local unpack_from, pack, concat = struct.unpack, struct.pack, table.concat

local EACH, ALL, PEEK_ALL = 0, 1, 2 -- modes: each run by itself; take all or nothing; only say so
local TAKE, PEEK, REFUND, RESET, RESERVE, CANCEL, UNDO = 0, 1, 2, 3, 4, 5, 6
local STATE, STATE_BYTES, FORMAT = '<BdI4I4', 17, 1
local VALUE, VALUE_BYTES = '<BdI4I4d', 25 -- as it lies in Redis: with the ms until which its key lives, or 0
local ABSENT, FOREIGN = ('\0'):rep(VALUE_BYTES), ('\255'):rep(VALUE_BYTES)
local RUN, DOUBLES = '<HHBI4d', '<dddddddddddd'
local NEVER_USED = {a = 0, b = 0, c = 0}
local DAY, LEAST_EXTRA, MOST_EXTRA = 86400000, 10000, 60000 -- ms

local head, runs = ARGV[1], ARGV[2]
local t, mode, plain, rule_count, at = unpack_from('<dBHH', head)
local live = t < 0
if live then
  local clock = redis.call('TIME')
  t = clock[1] * 1000000 + clock[2]
end

local loaded, rules = {}, {}
for i = 1, rule_count do
  local algorithm, count
  algorithm, count, at = unpack_from('<BB', head, at)
  local terms = {unpack_from(DOUBLES:sub(1, count + 1), head, at)}
  at = terms[count + 1]
  local x = loaded[algorithm]
  if not x then
    x = algorithm_of(algorithm)
    loaded[algorithm] = x
  end
  rules[i] = {x = x, w = x.new(terms)}
end

-- A key's life, as SET takes it and by the EXPIRE that sets it: rounded up to a millisecond and never 0. Where the caller gave the instant this
-- server's clock says nothing about it, so the key stays a day longer than it could matter.
local SET_LIFE, EXPIRE, FROM, EXTRA = 'PXAT', 'PEXPIREAT', 0, 0
if not live then
  SET_LIFE, EXPIRE, FROM, EXTRA = 'PX', 'PEXPIRE', t, DAY
end

-- life is a key's last ms if it is as if never used from reset_at on.
local function life(reset_at)
  return ceil_div(max(0, reset_at - FROM), 1000) + EXTRA
end

-- Read the states of the plain keys. Another program's value is foreign and stays as it is; all or nothing then takes nothing.
local before, found, states, lives_until, foreign, last_rule = {}, {}, {}, {}, {}, {}
if plain > 0 and #KEYS > 1 and mode == EACH then -- what holds no string is nothing here; see write.lua
  before = redis.call('MGET', unpack(KEYS, 1, plain))
else
  for k = 1, plain do
    before[k] = redis.call('GET', KEYS[k])
  end
end
for k = 1, plain do
  local v = before[k]
  if not v then
    states[k] = NEVER_USED
  else
    local format, a, b, c
    if #v == VALUE_BYTES then
      format, a, b, c, lives_until[k] = unpack_from(VALUE, v)
    end
    if format == FORMAT and a >= 0 and a <= MAX_EXACT then
      found[k] = {a = a, b = b, c = c}
      states[k] = found[k]
    elseif mode == EACH then
      states[k], foreign[k] = NEVER_USED, true
    else
      error('HEADGATE_FOREIGN')
    end
  end
end

local pos, size = 1, #runs
local logs, answers = {}, {}

-- take_times is count takes of n at one instant: as costs add up, one of all of them if they are all there, else one after another
-- until one is denied, behind which all are.
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

