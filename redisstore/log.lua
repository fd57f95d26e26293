-- The storage of sliding logs. A log is one string: the format, the number of expired
-- entries at the beginning, the units of all other entries, and then the entries,
-- oldest first. An entry consists of an instant and the units spent at it.
--
-- A decision reads only a few entries: the first entries up to one that still counts
-- (the front), and the newest entry. For the algorithm, all entries between them are
-- one entry with their total units.
local log_store = {}
local HEAD, HEAD_BYTES, LOG_FORMAT = '<BI4d', 13, 2
local ENTRY, ENTRY_BYTES = '<dI4', 12
local CHUNK, MAX_ENTRIES = 64, 1048576 -- entries of the first read; maximum entries of a log
-- deleted is the set of keys to delete at the end of the script. If a key were deleted
-- immediately, a cluster node that is moving the slot of the key would refuse to access
-- the key again.
local deleted = {}

-- load appends the entries in raw, from the position pos on, to the front of the log.
local function load(log, raw, pos)
  local front = log.front
  while pos <= #raw do
    local at, units
    at, units, pos = unpack_from(ENTRY, raw, pos)
    front[#front + 1] = {at = at, units = units}
    log.front_units = log.front_units + units
  end
end

-- assemble builds the list of entries on which the algorithm works.
local function assemble(log)
  local list, unread = {}, log.count - log.first - #log.front
  for i = 1, #log.front do
    list[i] = log.front[i]
  end
  if unread > 1 then
    list[#list + 1] = {at = log.newest.at, units = log.total - log.front_units - log.newest.units}
  end
  if unread > 0 then
    list[#list + 1] = log.newest
  end
  log.list, log.unread = list, unread
end

-- read_more reads the next entries: as many as the front has, but at least CHUNK.
local function read_more(log)
  local from = log.first + #log.front
  local to = min(log.count, from + max(CHUNK, #log.front))
  load(log, redis.call('GETRANGE', log.key, HEAD_BYTES + from * ENTRY_BYTES, HEAD_BYTES + to * ENTRY_BYTES - 1), 1)
  assemble(log)
end

-- read_until reads entries until the front contains an entry later than the instant
-- before, and in total at least the given units.
local function read_until(log, before, units)
  while log.unread > 0 and (#log.front == 0 or log.front[#log.front].at <= before or log.front_units < units) do
    read_more(log)
  end
end

-- write_log writes the whole string: a head that counts no expired entries, and the
-- given entries.
local function write_log(log, rule, total, entries)
  if entries == '' then
    deleted[log.key] = true
  else
    deleted[log.key] = nil
    redis.call('SET', log.key, pack(HEAD, LOG_FORMAT, 0, total) .. entries, SET_TTL, ttl_end(rule.x.reset_at(rule.w, log.list)))
  end
end

-- read_front returns the beginning of the string of a key, or '' if there is none. In
-- mode EACH it returns nil if the value is not a log; in the other modes that is an
-- error.
local function read_front(key)
  if deleted[key] then
    return ''
  end
  local last = HEAD_BYTES + CHUNK * ENTRY_BYTES - 1
  local raw = redis.pcall('GETRANGE', key, 0, last)
  if type(raw) == 'table' and (mode ~= EACH or not raw.err:find('WRONGTYPE', 1, true)) then
    raw = redis.call('GETRANGE', key, 0, last) -- raises the same error
  end
  local entries = #(type(raw) == 'string' and raw or '') - HEAD_BYTES
  if raw == '' or (entries >= 0 and entries % ENTRY_BYTES == 0 and raw:byte(1) == LOG_FORMAT) then
    return raw
  elseif mode ~= EACH then
    error('HEADGATE_FOREIGN')
  end
end

-- open returns the log of a key, or nil if read_front returns nil.
function log_store.open(key)
  local raw = read_front(key)
  if not raw then
    return
  end
  local log = {key = key, raw = raw, bytes = #raw, count = 0, first = 0, total = 0, front = {}, front_units = 0}
  if raw ~= '' then
    if #raw == HEAD_BYTES + CHUNK * ENTRY_BYTES then
      log.bytes = redis.call('STRLEN', key)
    end
    local _
    _, log.first, log.total = unpack_from(HEAD, raw)
    log.count = (log.bytes - HEAD_BYTES) / ENTRY_BYTES
    load(log, raw, HEAD_BYTES + log.first * ENTRY_BYTES + 1)
    if log.count - log.first > #log.front then
      local at, units = unpack_from(ENTRY, redis.call('GETRANGE', key, -ENTRY_BYTES, -1))
      log.newest = {at = at, units = units}
    end
  end
  assemble(log)
  return log
end

function log_store.fits(log, rule, n)
  read_until(log, t - rule.w.period, 0)
  return rule.x.fits(rule.w, log.list, t, n)
end

function log_store.answer(log, rule, n, allowed)
  local units = 0
  if not allowed and n <= rule.w.limit then -- wait until the entry with this unit expires
    units = log.total + n - rule.w.limit
  end
  read_until(log, t - rule.w.period, units)
  return rule.x.answer(rule.w, log.list, t, n, allowed)
end

-- unchanged_part returns the part of the string of a completely read log that a take
-- does not change.
local function unchanged_part(log, dropped, merged)
  return log.raw:sub(HEAD_BYTES + (log.first + dropped) * ENTRY_BYTES + 1, merged and -ENTRY_BYTES - 1 or -1)
end

-- modify_in_place changes a part of the string of a large log. If more than half of the
-- entries have expired, it writes the string again without them.
local function modify_in_place(log, rule, dropped, merged, total, entry)
  local key, first = log.key, log.first + dropped
  local reset_at = rule.x.reset_at(rule.w, log.list)
  if first > log.count / 2 then
    local rest = redis.call('GETRANGE', key, HEAD_BYTES + first * ENTRY_BYTES, merged and -ENTRY_BYTES - 1 or -1)
    write_log(log, rule, total, rest .. entry)
    return
  end
  redis.call('SETRANGE', key, 0, pack(HEAD, LOG_FORMAT, first, total))
  redis.call('SETRANGE', key, log.bytes - (merged and ENTRY_BYTES or 0), entry)
  redis.call(EXPIRE, key, ttl_end(reset_at))
end

-- take takes n units, which the limit allows. The table log must not be used
-- afterwards.
function log_store.take(log, rule, n)
  if n == 0 then
    return
  end
  read_until(log, t - rule.w.period, 0)
  local list = log.list
  local length, newest, total = #list, list[#list], log.total + n
  for i = 1, length do
    if list[i].at <= t - rule.w.period then
      total = total - list[i].units
    end
  end
  rule.x.take(rule.w, list, t, n, log.count - log.first < MAX_ENTRIES)
  local last = list[#list]
  local merged = last == newest
  local dropped = length + (merged and 0 or 1) - #list
  local entry = pack(ENTRY, last.at, last.units)
  if #log.raw == log.bytes then
    write_log(log, rule, total, unchanged_part(log, dropped, merged) .. entry)
  else
    modify_in_place(log, rule, dropped, merged, total, entry)
  end
end

-- rewrite writes a log of which all entries have been read.
local function rewrite(log, rule)
  local entries, total = {}, 0
  for i, entry in ipairs(log.list) do
    entries[i], total = pack(ENTRY, entry.at, entry.units), total + entry.units
  end
  write_log(log, rule, total, concat(entries))
end

-- refund refunds n units. It reads the whole log. After refund, reset and undo, the
-- table log must not be used.
function log_store.refund(log, rule, n)
  if n > 0 and log.count > 0 then
    read_until(log, EXACT, 0)
    rule.x.refund(rule.w, log.list, t, n)
    rewrite(log, rule)
  end
end

function log_store.reset(log)
  deleted[log.key] = true
end

-- undo removes n units that the log recorded at the instant mark.
function log_store.undo(log, rule, mark, n)
  if log.count > 0 then
    read_until(log, EXACT, 0)
    rule.x.undo(rule.w, log.list, mark, n)
    rewrite(log, rule)
  end
end

-- close sets the TTL of a log, even if the units were denied. It deletes a log that is
-- unused.
function log_store.close(log, rule)
  if log.bytes == 0 then
    return
  end
  local reset_at = rule.x.reset_at(rule.w, log.list)
  if server_clock and reset_at <= t then
    deleted[log.key] = true
  else
    redis.call(EXPIRE, log.key, ttl_end(reset_at))
  end
end

function log_store.delete_marked()
  for key in pairs(deleted) do
    redis.call('DEL', key)
  end
end
