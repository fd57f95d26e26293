-- Lua implementation of leakybucket.go: the token bucket, which precedes this text as
-- the local bucket, with the flag set.

local new = bucket.new

function bucket.new(terms)
  local b = new(terms)
  b.leaky = true
  return b
end

return bucket
