-- A string: 12 bytes for each entry, then the trailer {units, newest instant, dead entries, all entries, the first live entry}. A new
-- entry and the trailer behind it are one write, and a denial looks at the trailer alone while nothing has aged out.
local TRAILER, TRAILER_BYTES = '<dddddI4', 44
local dead, count, first_at, first_units = 0, 0, 0, 0
local raw = call('GETRANGE', key, '-44', '-1')
if raw ~= '' then
  total, newest, dead, count, first_at, first_units = unpack_from(TRAILER, raw)
end
local chunk, first = '', 2 -- the chunk begins with entry first, counted from the first that is not dead

local function entry(i)
  if dead + i > count then
    return
  end
  if i == 1 then
    return first_at, first_units
  end
  local at = (i - first) * BYTES
  if at >= #chunk then
    local from = (dead + i - 1) * BYTES
    chunk, first, at = call('GETRANGE', key, from, math.min(from + CHUNK * BYTES, count * BYTES) - 1), i, 0
  end
  return unpack_from(ENTRY, chunk, at + 1)
end

-- trailer is the one behind an entry of n units at t, the last of entries.
local function trailer(aged, t, n, all, gone, entries)
  local at, units = entry(aged + 1)
  if not at or gone + 1 == entries then
    at, units = t, n
  end
  return pack(TRAILER, all, t, gone, entries, at, units)
end

local function save(aged, t, n, all)
  local gone, entries = dead + aged, count
  if t <= newest and all > n then
    local _, units = unpack_from(ENTRY, call('GETRANGE', key, (count - 1) * BYTES, count * BYTES - 1))
    n, entries = n + units, count - 1
  end
  if gone > CHUNK and gone > entries / 2 then
    local live = ''
    if entries > gone then
      live = call('GETRANGE', key, gone * BYTES, entries * BYTES - 1)
    end
    entries = entries - gone + 1
    call('SET', key, live .. pack(ENTRY, t, n) .. trailer(aged, t, n, all, 0, entries), 'PX', life)
    return
  end
  call('SETRANGE', key, entries * BYTES, pack(ENTRY, t, n) .. trailer(aged, t, n, all, gone, entries + 1))
  call('PEXPIRE', key, life)
end
