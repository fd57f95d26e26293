-- Keep what changed, and see that whatever stays has a life. A state that is as if never used need not be kept; where the caller
-- gave the instant he may go back behind it, so then it is.
--
-- A key that is written once more is given some more life than it needs, and remembers it, so that most writes to it need not set it:
-- to write in place costs a third of SET. A call for one key alone, or all or nothing, sets it all the same, so that a life that was taken away comes back.
local reply, now_ms = {pack('<d', t)}, floor(t / 1000)
for k = 1, plain do
  local key, s, v, rule = KEYS[k], states[k], before[k], last_rule[k]
  if not foreign[k] then
    local reset_at = rule.x.reset_at(rule.w, s)
    local kept = s == found[k] and (lives_until[k] or 0) >= now_ms -- under another limit it may yet matter to whoever wrote it
    if (live and reset_at <= t and not kept) or (s.a == 0 and s.b == 0 and s.c == 0) then
      if v then
        redis.call('DEL', key)
      elseif #KEYS > 1 and type(redis.pcall('GET', key)) == 'table' then
        foreign[k] = true -- not a string: MGET gives nothing for it
      end
    else
      local needed, lives = life(reset_at), live and lives_until[k] or 0
      if not v then
        if not redis.call('SET', key, pack(VALUE, FORMAT, s.a, s.b, s.c, live and needed or 0), SET_LIFE, needed, 'NX') then
          foreign[k] = true
        end
      elseif lives >= needed and plain > 1 and mode == EACH then
        if s ~= found[k] then
          redis.call('SETRANGE', key, '0', pack(VALUE, FORMAT, s.a, s.b, s.c, lives))
        end
      elseif s == found[k] then
        if live or lives_until[k] == 0 then -- a life by this server's clock is not for the caller's to end
          redis.call(EXPIRE, key, max(needed, lives))
        end
      else
        if live then
          needed = max(lives, needed + max(LEAST_EXTRA, min(MOST_EXTRA, needed - now_ms)))
        end
        redis.call('SET', key, pack(VALUE, FORMAT, s.a, s.b, s.c, live and needed or 0), SET_LIFE, needed)
      end
    end
  end
  reply[k + 1] = foreign[k] and FOREIGN or v or ABSENT
end
for i = 1, #answers do
  reply[#reply + 1] = answers[i]
end
return concat(reply)
