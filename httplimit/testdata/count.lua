-- Counts the responses that wrk receives: admitted, denied, denied without Retry-After,
-- and other ones. wrk runs one thread, so there is one set of counters.
local count = {admitted = 0, denied = 0, hintless = 0, other = 0}
local thread

function setup(t) thread = t end

function init()
  admitted, denied, hintless, other = 0, 0, 0, 0
end

function response(status, headers)
  if status == 200 then
    admitted = admitted + 1
  elseif status == 429 then
    denied = denied + 1
    local wait = tonumber(headers["Retry-After"])
    if not wait or wait < 1 then hintless = hintless + 1 end
  else
    other = other + 1
  end
end

function done(summary)
  for name in pairs(count) do
    io.write(string.format("%s %d\n", name, thread:get(name)))
  end
  local e = summary.errors
  io.write(string.format("broken %d\n", e.connect + e.read + e.write + e.timeout))
  io.write(string.format("rate %d\n", summary.requests / summary.duration * 1e6))
end
