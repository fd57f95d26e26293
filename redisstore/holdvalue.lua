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
--LEDGERS
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
