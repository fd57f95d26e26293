-- The open holds of a key, for operators. The reply is the instant of the server in µs,
-- in 8 bytes, then 's' and the value of a string, or 'h' and the holds of a log that is
-- a hash; see holdvalue.lua and log.lua. It has only the instant if there is no key.
local clock = redis.call('TIME')
local now = struct.pack('<d', clock[1] * 1000000 + clock[2])
local value = redis.pcall('GET', KEYS[1])
if type(value) == 'string' then
  return now .. 's' .. value
elseif type(value) == 'table' then
  if not value.err:find('WRONGTYPE', 1, true) then
    return value
  end
  local held = redis.pcall('HGET', KEYS[1], 'o')
  if type(held) == 'string' then
    return now .. 'h' .. held
  end
end
return now
