-- Loads or saves a document: a hash with the version v, a decimal number, and the content
-- c. KEYS[1] is the document.
--
-- ARGV of a load: the version that the caller knows, or an empty text. It returns the
-- version and, if it is another one, a colon and the content.
--
-- ARGV of a save: the expected version, the new version and the content. An empty content
-- removes the document. It returns "saved" or "conflict".
local version = redis.call('HGET', KEYS[1], 'v') or ''
if #ARGV == 1 then
  if version == ARGV[1] then
    return version
  end
  return version .. ':' .. (redis.call('HGET', KEYS[1], 'c') or '')
end
if version ~= ARGV[1] then
  return 'conflict'
end
if ARGV[3] == '' then
  redis.call('DEL', KEYS[1])
else
  redis.call('HSET', KEYS[1], 'v', ARGV[2], 'c', ARGV[3])
end
return 'saved'
