-- A sorted set: the header {units, newest instant} in front of all, then a member for each entry, its instant the score.
local HEAD = '<dd'
local rows = call('ZRANGE', key, '0', '16')
local first = 0 -- rows[i] is member first + i - 1; entry i is member i
if rows[1] then
  total, newest = unpack_from(HEAD, rows[1])
end

local function entry(i)
  if i < first or i > first + #rows - 1 then
    rows, first = call('ZRANGE', key, i, i + CHUNK), i
  end
  local row = rows[i - first + 1]
  if row then
    return unpack_from(ENTRY, row)
  end
end

local function save(aged, t, n, all)
  call('ZREMRANGEBYRANK', key, '0', aged)
  if t <= newest and all > n then
    local last = call('ZRANGE', key, '-1', '-1')[1]
    local _, units = unpack_from(ENTRY, last)
    call('ZREM', key, last)
    n = n + units
  end
  call('ZADD', key, '-inf', pack(HEAD, all, t), t, pack(ENTRY, t, n))
  call('PEXPIRE', key, life)
end
