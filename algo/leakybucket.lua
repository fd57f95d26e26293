-- The twin of leakybucket.go: the token bucket's text, which stands before this one as the local bucket, with the flag set.

local new = bucket.new

function bucket.new(terms)
  local b = new(terms)
  b.leaky = true
  return b
end

return bucket
