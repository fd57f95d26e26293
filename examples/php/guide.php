<?php
// A service that runs the script of the Redis guides, and one that asks Headgate. Both
// spend from the same bucket.
[$host, $port] = explode(':', getenv('REDIS_ADDR') ?: '127.0.0.1:6379');
$redis = new Redis();
$redis->pconnect($host, (int) $port, 0.2);

// [snippet script]
$script = <<<'LUA'
local key, now = KEYS[1], tonumber(ARGV[1])
local capacity, refill_rate, refill_interval = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local bucket = redis.call('HMGET', key, 'tokens', 'last_refill')
local tokens, last_refill = tonumber(bucket[1]), tonumber(bucket[2])
if tokens == nil then
  tokens, last_refill = capacity, now
end
local refills = math.floor((now - last_refill) / refill_interval)
if refills > 0 then
  tokens = math.min(capacity, tokens + refills * refill_rate)
  last_refill = last_refill + refills * refill_interval
end
local allowed = 0
if tokens >= 1 then
  tokens, allowed = tokens - 1, 1
end
redis.call('HSET', key, 'tokens', tokens, 'last_refill', last_refill)
return {allowed, tokens}
LUA;
// [end script]

// [snippet before]
// Before: a capacity of 10, and 1 token an hour.
[$allowed, $tokens] = $redis->eval($script, ['user:42', microtime(true), 10, 1, 3600], 1);
// [end before]
echo "script: allowed $allowed, $tokens left\n";

[$host, $port] = explode(':', getenv('RATE_LIMIT_RESP') ?: '127.0.0.1:6380');
$headgate = new Redis();
$headgate->pconnect($host, (int) $port, 0.2, 'headgate', 0, (getenv('RATE_LIMIT_TIMEOUT_MS') ?: 200) / 1000);

// [snippet after]
// After: the policy api has the limit 1/1h burst 10.
$reply = $headgate->rawCommand('HG.CHECK', 'api', 'user:42');
$decision = array_column(array_chunk($reply, 2), 1, 0);
// [end after]
echo "Headgate: allowed {$decision['allowed']}, {$decision['remaining']} left\n";

[$allowed, $tokens] = $redis->eval($script, ['user:42', microtime(true), 10, 1, 3600], 1);
echo "script: allowed $allowed, $tokens left\n";
