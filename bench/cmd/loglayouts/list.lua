-- A list: the header {units, newest instant}, then an element for each entry.
local HEAD = '<dd'
local rows = call('LRANGE', key, '0', '16')
local first, fresh = 0, not rows[1] -- rows[i] is element first + i - 1; entry i is element i
if not fresh then
  total, newest = unpack_from(HEAD, rows[1])
end

local function entry(i)
  if i < first or i > first + #rows - 1 then
    rows, first = call('LRANGE', key, i, i + CHUNK), i
  end
  local row = rows[i - first + 1]
  if row then
    return unpack_from(ENTRY, row)
  end
end

local function save(aged, t, n, all)
  local head = pack(HEAD, all, t)
  if fresh then
    call('RPUSH', key, head, pack(ENTRY, t, n))
  else
    if t <= newest and all > n then
      local _, units = unpack_from(ENTRY, call('LINDEX', key, '-1'))
      call('LSET', key, '-1', pack(ENTRY, t, units + n))
    else
      call('RPUSH', key, pack(ENTRY, t, n))
    end
    if aged > 0 then
      call('LPOP', key, aged) -- the header and all but one: that one's place is the header's
    end
    call('LSET', key, '0', head)
  end
  call('PEXPIRE', key, life)
end
