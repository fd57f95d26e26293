<?php
// A rate limit check with phpredis, over the Redis-compatible endpoint.

// [snippet connect]
function headgate(): Redis
{
    static $redis = new Redis(); // one connection for the whole request
    if (!$redis->isConnected()) {
        $timeout = (getenv('RATE_LIMIT_TIMEOUT_MS') ?: 200) / 1000; // seconds
        [$host, $port] = explode(':', getenv('RATE_LIMIT_RESP') ?: '127.0.0.1:6380');
        // pconnect keeps the connection for the next requests of the same PHP-FPM worker.
        $redis->pconnect($host, (int) $port, $timeout, 'headgate', 0, $timeout);
    }
    return $redis;
}
// [end connect]

// [snippet check]
/** Returns the fields of the reply, or null if Headgate could not decide. */
function check(string $policy, string $key, int $cost = 1): ?array
{
    $redis = null;
    try {
        $redis = headgate();
        // A RESP2 reply is a flat list: name, value, name, value, …
        $reply = $redis->rawCommand('HG.CHECK', $policy, $key, (string) $cost);
        return array_column(array_chunk($reply, 2), 1, 0);
    } catch (RedisException $e) {
        $redis?->close(); // so that a late reply is not read as the reply to the next check
        error_log('headgate: ' . $e->getMessage());
        return null;
    }
}
// [end check]

// [snippet use]
for ($i = 1; $i <= 4; $i++) {
    $decision = check('api', 'phpredis:user:42');
    if ($decision === null) {
        echo "not decided: allowed\n"; // fail open; for a login deny here (fail closed)
    } elseif ($decision['allowed']) {
        echo "allowed, {$decision['remaining']} left\n";
    } else {
        $retry = (int) ceil($decision['retry_after_ms'] / 1000);
        echo "denied, Retry-After: $retry\n"; // http_response_code(429) in a web page
    }
}
// [end use]
