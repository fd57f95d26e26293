-- A string: the header {units, newest instant, dead entries, all entries}, then 12 bytes for each entry.
local HEAD, HEAD_BYTES = '<dddd', 32
local dead, count = 0, 0
local raw = call('GETRANGE', key, '0', '31')
if raw ~= '' then
  total, newest, dead, count = unpack_from(HEAD, raw)
end
local chunk, first = '', 1 -- the chunk begins with entry first, counted from the first that is not dead

local function entry(i)
  if dead + i > count then
    return
  end
  local at = (i - first) * BYTES
  if at >= #chunk then
    local from = HEAD_BYTES + (dead + i - 1) * BYTES
    chunk, first, at = call('GETRANGE', key, from, from + CHUNK * BYTES - 1), i, 0
  end
  return unpack_from(ENTRY, chunk, at + 1)
end

local function save(aged, t, n, all)
  dead = dead + aged
  if t <= newest and all > n then
    local _, units = unpack_from(ENTRY, call('GETRANGE', key, -BYTES, -1))
    n, count = n + units, count - 1
  end
  if dead > CHUNK and dead > count / 2 then
    local live = ''
    if count > dead then
      live = call('GETRANGE', key, HEAD_BYTES + dead * BYTES, HEAD_BYTES + count * BYTES - 1)
    end
    call('SET', key, pack(HEAD, all, t, 0, count - dead + 1) .. live .. pack(ENTRY, t, n), 'PX', life)
    return
  end
  call('SETRANGE', key, '0', pack(HEAD, all, t, dead, count + 1))
  call('SETRANGE', key, HEAD_BYTES + count * BYTES, pack(ENTRY, t, n))
  call('PEXPIRE', key, life)
end
