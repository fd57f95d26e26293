-- Decides a list of runs on the states of KEYS, at one instant, and writes back what changed: the one script of this store. Before
-- it stand arithmetic.lua and, as ALGORITHMS, a function for each algorithm that gives its functions.
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
local ABSENT, FOREIGN = ('\0'):rep(STATE_BYTES), ('\255'):rep(STATE_BYTES)
local RUN = '<HBBI4d'
local NEVER_USED = {a = 0, b = 0, c = 0}
local DAY = 86400000 -- ms

local head, runs = ARGV[1], ARGV[2]
local t, mode, plain, rule_count, at = unpack_from('<dBHB', head)
local live = t < 0
if live then
  local clock = redis.call('TIME')
  t = clock[1] * 1000000 + clock[2]
end

local loaded, rules = {}, {}
for i = 1, rule_count do
  local algorithm, count
  algorithm, count, at = unpack_from('<BB', head, at)
  local terms = {unpack_from('<' .. ('d'):rep(count), head, at)}
  at = terms[count + 1]
  local x = loaded[algorithm] or ALGORITHMS[algorithm]()
  loaded[algorithm] = x
  rules[i] = {x = x, w = x.new(terms)}
end

-- life is a key's last millisecond as what SET and PEXPIRE take: rounded up and never 0. Where the caller gave the instant this
-- server's clock says nothing about it, so the key stays a day longer than it could matter.
local function life(reset_at)
  if live then
    return 'PXAT', ceil_div(reset_at, 1000)
  end
  return 'PX', ceil_div(max(0, reset_at - t), 1000) + DAY
end

local function keep(key, reset_at)
  local kind, ms = life(reset_at)
  redis.call(kind == 'PX' and 'PEXPIRE' or 'PEXPIREAT', key, ms)
end

