-- One decision of a sliding log, whatever it is kept in. Before this stands the text of a layout, which gives
--   total, newest   the units in the log, aged ones too, and the newest instant
--   entry(i)        instant and units of the i-th entry, oldest first; nothing behind the last
--   save(aged, t, n, total)   drops entries in front and adds one, or adds to the newest if t is not after it
-- ARGV: the instant, L and P in µs, the cost, and how long the key stays, in ms. A cost above L is not handled.
local t, limit, period, n = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])

local aged = 0
while true do
  local at, units = entry(aged + 1)
  if not at or at > t - period then
    break
  end
  aged, total = aged + 1, total - units
end

local function reset_after()
  if total == 0 then
    return 0
  end
  return newest + period - t
end

if n <= limit - total then
  if n > 0 then
    total = total + n
    save(aged, math.max(t, newest), n, total)
    newest = math.max(t, newest)
  end
  return {1, limit - total, 0, reset_after()}
end

local short, last, at, units = total + n - limit, aged, nil, nil
repeat
  last = last + 1
  at, units = entry(last)
  short = short - units
until short <= 0
return {0, limit - total, at + period - t, reset_after()}
