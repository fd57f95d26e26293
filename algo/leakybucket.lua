-- Lua implementation of leakybucket.go: the token bucket with the flag leaky set. The
-- text of the token bucket precedes this text, as the local variable bucket.

local new = bucket.new

function bucket.new(params)
  local b = new(params)
  b.leaky = true
  return b
end

return bucket
