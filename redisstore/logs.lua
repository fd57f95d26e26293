-- What a sliding log needs of a store. A log is one string: the format, how many entries in front are dead, the
-- units of all that are not, and then its entries, oldest first, each an instant and its units. A decision looks at few of them: those
-- in front, until one still counts, and the newest. What lies between is one entry to the algorithm, of as many units.

local on = {}
local HEAD, HEAD_BYTES, LOG_FORMAT = '<BI4d', 13, 2
local ENTRY, ENTRY_BYTES = '<dI4', 12
local CHUNK, MOST = 64, 1048576 -- entries read at once, and kept in all
local gone = {} -- keys that are to be deleted, once all is done: a node whose slot is being moved would not let us at them again

-- load appends the entries in raw, from pos on, to the front.
local function load(log, raw, pos)
  local front = log.front
  while pos <= #raw do
    local at, units
    at, units, pos = unpack_from(ENTRY, raw, pos)
    front[#front + 1] = {at = at, units = units}
    log.front_units = log.front_units + units
  end
end

-- assemble makes the list that the algorithm sees.
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

-- more reads on, twice as far each time.
local function more(log)
  local from = log.first + #log.front
  local to = min(log.count, from + max(CHUNK, #log.front))
  load(log, redis.call('GETRANGE', log.key, HEAD_BYTES + from * ENTRY_BYTES, HEAD_BYTES + to * ENTRY_BYTES - 1), 1)
  assemble(log)
end

-- cover reads until the front reaches past before and holds so many units.
local function cover(log, before, units)
  while log.unread > 0 and (#log.front == 0 or log.front[#log.front].at <= before or log.front_units < units) do
    more(log)
  end
end

-- set writes the whole string: entries behind a head without dead ones.
local function set(log, rule, total, entries)
  if entries == '' then
    gone[log.key] = true
  else
    gone[log.key] = nil
    redis.call('SET', log.key, pack(HEAD, LOG_FORMAT, 0, total) .. entries, SET_LIFE, life(rule.x.reset_at(rule.w, log.list)))
  end
end

-- read is the front of a key's string, or nothing if each run is by itself and the key holds something else.
local function read(key)
  if gone[key] then
    return ''
  end
  local last = HEAD_BYTES + CHUNK * ENTRY_BYTES - 1
  local raw = redis.pcall('GETRANGE', key, 0, last)
  if type(raw) == 'table' and (mode ~= EACH or not raw.err:find('WRONGTYPE', 1, true)) then
    raw = redis.call('GETRANGE', key, 0, last) -- fails as it did
  end
  local entries = #(type(raw) == 'string' and raw or '') - HEAD_BYTES
  if raw == '' or (entries >= 0 and entries % ENTRY_BYTES == 0 and raw:byte(1) == LOG_FORMAT) then
    return raw
  elseif mode ~= EACH then
    error('HEADGATE_FOREIGN')
  end
end

-- open is the log of a key, or nothing as read has nothing.
function on.open(key)
  local raw = read(key)
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

function on.fits(log, rule, n)
  cover(log, t - rule.w.period, 0)
  return rule.x.fits(rule.w, log.list, t, n)
end

function on.answer(log, rule, n, allowed)
  local units = 0
  if not allowed and n <= rule.w.limit then -- the wait is until the entry with this unit has aged out
    units = log.total + n - rule.w.limit
  end
  cover(log, t - rule.w.period, units)
  return rule.x.answer(rule.w, log.list, t, n, allowed)
end

-- shorten gives the part of a small log's string that stays as it is.
local function kept(log, dropped, merged)
  return log.raw:sub(HEAD_BYTES + (log.first + dropped) * ENTRY_BYTES + 1, merged and -ENTRY_BYTES - 1 or -1)
end

-- edit changes a large log in its place, and moves it to the front of its string once more than half of that is dead.
local function edit(log, rule, dropped, merged, total, entry)
  local key, first = log.key, log.first + dropped
  local reset_at = rule.x.reset_at(rule.w, log.list)
  if first > log.count / 2 then
    local rest = redis.call('GETRANGE', key, HEAD_BYTES + first * ENTRY_BYTES, merged and -ENTRY_BYTES - 1 or -1)
    set(log, rule, total, rest .. entry)
    return
  end
  redis.call('SETRANGE', key, 0, pack(HEAD, LOG_FORMAT, first, total))
  redis.call('SETRANGE', key, log.bytes - (merged and ENTRY_BYTES or 0), entry)
  redis.call(EXPIRE, key, life(reset_at))
end

-- take is for units that fit. The log is not to be used after it.
function on.take(log, rule, n)
  if n == 0 then
    return
  end
  cover(log, t - rule.w.period, 0)
  local list = log.list
  local length, newest, total = #list, list[#list], log.total + n
  for i = 1, length do
    if list[i].at <= t - rule.w.period then
      total = total - list[i].units
    end
  end
  rule.x.take(rule.w, list, t, n, log.count - log.first < MOST)
  local last = list[#list]
  local merged = last == newest
  local dropped = length + (merged and 0 or 1) - #list
  local entry = pack(ENTRY, last.at, last.units)
  if #log.raw == log.bytes then
    set(log, rule, total, kept(log, dropped, merged) .. entry)
  else
    edit(log, rule, dropped, merged, total, entry)
  end
end

-- rewrite writes all of a log that was read to its end.
local function rewrite(log, rule)
  local entries, total = {}, 0
  for i, entry in ipairs(log.list) do
    entries[i], total = pack(ENTRY, entry.at, entry.units), total + entry.units
  end
  set(log, rule, total, concat(entries))
end

-- refund reads the whole log. The log is not to be used after it, nor after reset and undo.
function on.refund(log, rule, n)
  if n > 0 and log.count > 0 then
    cover(log, EXACT, 0)
    rule.x.refund(rule.w, log.list, t, n)
    rewrite(log, rule)
  end
end

function on.reset(log)
  gone[log.key] = true
end

-- undo takes back n units that were entered under the instant mark.
function on.undo(log, rule, mark, n)
  if log.count > 0 then
    cover(log, EXACT, 0)
    rule.x.undo(rule.w, log.list, mark, n)
    rewrite(log, rule)
  end
end

-- close sees that a log has a life, also one whose units were denied.
function on.close(log, rule)
  if log.bytes == 0 then
    return
  end
  local reset_at = rule.x.reset_at(rule.w, log.list)
  if live and reset_at <= t then
    gone[log.key] = true
  else
    redis.call(EXPIRE, log.key, life(reset_at))
  end
end

function on.delete_gone()
  for key in pairs(gone) do
    redis.call('DEL', key)
  end
end
