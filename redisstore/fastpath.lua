-- The fast path executes the most frequent runs: takes and peeks of plain states.
while pos <= size and mode == EACH and log_count == 0 and not any_held do
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
