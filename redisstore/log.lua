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
