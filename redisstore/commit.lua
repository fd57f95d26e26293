-- Write the states that changed, and make sure that every key has a TTL. A key whose
-- state is unused is deleted. If the caller passed the instant, an unused state is
-- kept, because the caller may pass an earlier instant next time.
--
-- A key that is written again gets a longer TTL than its state needs, and the instant
-- of expiry is stored with the state. Most later writes then need not set the TTL:
-- writing the string in place costs a third of SET. A call for one key and an
-- all-or-nothing call always set the TTL, which restores a TTL that was removed.
local reply, now_ms = {pack('<d', t)}, floor(t / 1000)
for k = 1, plain do
  local key, s, v, rule = KEYS[k], states[k], before[k], last_rule[k]
  local was = found[k]
  if held[k] then
    found[k] = nil -- its value is not that of a plain state
  end
  if not foreign[k] and not (held[k] and holds_of.save(k, rule, s)) then
    local reset_at = rule.x.reset_at(rule.w, s)
    -- The state may still matter under the limit with which it was written. If its
    -- expiry is not stored, the key has the TTL of an instant that a caller passed.
    -- An undo can restore a state that matters under another limit only; it keeps the
    -- TTL.
    local kept = keep_ttl or s == found[k] and (expires_at[k] == 0 or expires_at[k] >= now_ms)
    if (server_clock and reset_at <= t and not kept) or (s.a == 0 and s.b == 0 and s.c == 0) then
      if v then
        redis.call('DEL', key)
      elseif state_count > 1 and type(redis.pcall('GET', key)) == 'table' then
        foreign[k] = true -- not a string: MGET returns nothing for it
      end
    else
      local needed, current = ttl_end(reset_at), server_clock and expires_at[k] or 0
      if not v then
        if not redis.call('SET', key, pack(VALUE, FORMAT, s.a, s.b, s.c, server_clock and needed or 0), SET_TTL, needed, 'NX') then
          foreign[k] = true
        end
      elseif current >= needed and plain > 1 and mode == EACH then
        if s ~= found[k] then
          redis.call('SETRANGE', key, '0', pack(VALUE, FORMAT, s.a, s.b, s.c, current))
        end
      elseif s == found[k] and server_clock and expires_at[k] > 0 then
        redis.call(EXPIRE, key, max(needed, current))
      elseif s == found[k] then
        -- The expiry is not stored, or it is by the server's clock and the instant by
        -- the caller's.
        extend_ttl(key, needed)
      else
        if server_clock then
          needed = max(current, needed + max(MIN_EXTRA, min(MAX_EXTRA, needed - now_ms)))
        else
          needed = ttl_of_write(key, reset_at)
        end
        redis.call('SET', key, pack(VALUE, FORMAT, s.a, s.b, s.c, server_clock and needed or 0), SET_TTL, needed)
      end
    end
  end
  if held[k] and not foreign[k] then
    v = holds_of.found(k, v, was)
  end
  reply[k + 1] = foreign[k] and FOREIGN or v or ABSENT
end
for i = 1, #answers do
  reply[plain + 1 + i] = answers[i]
end
return concat(reply)
