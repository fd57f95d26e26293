-- A string: the units and the newest instant, then 12 bytes for each entry. It is read and written as a whole, so none are dead.
local HEAD, HEAD_BYTES = '<dd', 16
local raw = call('GET', key) or ''
if raw ~= '' then
  total, newest = unpack_from(HEAD, raw)
end

local function entry(i)
  local at = HEAD_BYTES + (i - 1) * BYTES
  if at < #raw then
    return unpack_from(ENTRY, raw, at + 1)
  end
end

local function save(aged, t, n, all)
  local last = -1
  if t <= newest and all > n then
    local _, units = unpack_from(ENTRY, raw, #raw - BYTES + 1)
    n, last = n + units, -BYTES - 1
  end
  call('SET', key, pack(HEAD, all, t) .. raw:sub(HEAD_BYTES + aged * BYTES + 1, last) .. pack(ENTRY, t, n), 'PX', life)
end
