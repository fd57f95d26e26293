-- What every layout needs.
local call, pack, unpack_from = redis.call, struct.pack, struct.unpack
local key, life = KEYS[1], ARGV[5]
local ENTRY, BYTES, CHUNK = '<dI4', 12, 16
local total, newest = 0, 0
