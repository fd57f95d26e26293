-- The common case: takes of plain states.
while pos <= size and mode == EACH and plain == #KEYS do
  local k, r, verb, count, n, next = unpack_from(RUN, runs, pos)
  if verb > PEEK then
    break
  end
  local rule = rules[r]
  if verb == TAKE then
    states[k] = take_times(rule.x, rule.w, states[k], n, count)
  end
  last_rule[k], pos = rule, next
end
if pos <= size then
  the_rest()
end

-- Keep what changed, and see that whatever stays has a life. A state that is as if never used need not be kept; where the caller
-- gave the instant he may go back behind it, so then it is.
local reply = {pack('<d', t)}
for k = 1, plain do
  local key, s, v, rule = KEYS[k], states[k], before[k], last_rule[k]
  if not foreign[k] then
    local reset_at = rule.x.reset_at(rule.w, s)
    if (live and reset_at <= t) or (s.a == 0 and s.b == 0 and s.c == 0) then
      if v then
        redis.call('DEL', key)
      end
    else
      local now = pack(STATE, FORMAT, s.a, s.b, s.c)
      if now == v then
        redis.call(EXPIRE, key, life(reset_at))
      elseif v then
        redis.call('SET', key, now, SET_LIFE, life(reset_at))
      elseif not redis.call('SET', key, now, SET_LIFE, life(reset_at), 'NX') then
        foreign[k] = true -- not a string: MGET gives nothing for it
      end
    end
  end
  reply[k + 1] = foreign[k] and FOREIGN or v or ABSENT
end
for i = 1, #answers do
  reply[#reply + 1] = answers[i]
end
return concat(reply)
