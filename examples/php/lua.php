<?php
// Checks with the published Lua script, without the service. They share their state with
// every Go program and service that uses the same Redis.
[$host, $port] = explode(':', getenv('REDIS_ADDR') ?: '127.0.0.1:6379');
$redis = new Redis();
$redis->pconnect($host, (int) $port, 0.2);

// [snippet key]
/** Returns the Redis key of $key under the limit number $limit of a policy. */
function redisKey(string $code, string $policy, string $key, int $limit = 0, string $namespace = 'default'): string
{
    $hash = function (string ...$parts): string {
        $text = implode('', array_map(fn ($part) => pack('P', strlen($part)) . $part, $parts));
        return rtrim(strtr(base64_encode(substr(hash('sha256', $text, true), 0, 16)), '+/', '-_'), '=');
    };
    $escape = function (string $text, int $max, string $plain) use ($hash): string {
        $escaped = preg_replace_callback("~[^a-zA-Z0-9_.@/+=,#$plain-]~", fn ($m) => sprintf('%%%02X', ord($m[0])), $text);
        return strlen($escaped) <= $max ? $escaped : substr($escaped, 0, $max - 23) . '~' . $hash($text);
    };
    return 'hg:{' . $hash($namespace, $key) . '}:' . $escape($namespace, 192, '') . ":$code:"
        . $escape("policy:$limit:$policy", 80, '') . ':' . $escape($key, 64, ':');
}
// [end key]

// [snippet evalsha]
/** Calls the script; loads it if Redis does not have it. */
function evalScript(Redis $redis, string $key, array $args): array
{
    static $text = null;
    $text ??= file_get_contents(__DIR__ . '/../../redisstore/contract/headgate-v1.lua');
    $reply = $redis->evalSha(sha1($text), [$key, ...$args], 1);
    if ($reply === false && str_starts_with((string) $redis->getLastError(), 'NOSCRIPT')) {
        $redis->clearLastError();
        $reply = $redis->eval($text, [$key, ...$args], 1);
    }
    if ($reply === false) {
        throw new RuntimeException((string) $redis->getLastError());
    }
    return $reply;
}
// [end evalsha]

// [snippet use]
// The policy api: 3/1h, a token_bucket (code tb). Times are in µs.
[$allowed, $limit, $remaining, $retryAfter, $resetAfter, $delay, $never] = evalScript(
    $redis,
    redisKey('tb', 'api', 'phpredis:user:42'),
    ['check', 'token_bucket', 3, 3_600_000_000, 3, 1],
);
// [end use]
echo $allowed ? "allowed, $remaining left\n" : 'denied, Retry-After: ' . ceil($retryAfter / 1e6) . "\n";
evalScript($redis, redisKey('tb', 'api', 'phpredis:user:42'), ['reset', 'token_bucket', 3, 3_600_000_000, 3, 0]);

// The test vectors.
$vectors = json_decode(file_get_contents(__DIR__ . '/../../redisstore/contract/vectors.json'), true);
$equal = 0;
foreach ($vectors as $vector) {
    $equal += evalScript($redis, $vector['key'], $vector['args']) === $vector['reply'];
}
echo "$equal of ", count($vectors), " vectors equal\n";

// The Redis keys of the Go store.
$keys = json_decode(file_get_contents(__DIR__ . '/../../redisstore/contract/keys.json'), true);
$equal = 0;
foreach ($keys as $k) {
    $equal += redisKey($k['code'], $k['policy'], $k['key'], $k['limit']) === $k['redis_key'];
}
echo "$equal of ", count($keys), " keys equal\n";
