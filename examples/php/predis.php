<?php
// A rate limit check with Predis, over the Redis-compatible endpoint.
require 'Predis/Autoloader.php'; // Debian's package; with Composer: vendor/autoload.php
Predis\Autoloader::register();

// [snippet connect]
function headgate(): Predis\Client
{
    static $client = null;
    if ($client === null) {
        $timeout = (getenv('RATE_LIMIT_TIMEOUT_MS') ?: 200) / 1000; // seconds
        [$host, $port] = explode(':', getenv('RATE_LIMIT_RESP') ?: '127.0.0.1:6380');
        $client = new Predis\Client([
            'host' => $host, 'port' => (int) $port,
            'timeout' => $timeout, 'read_write_timeout' => $timeout,
            'persistent' => true, // the connection survives the request
        ]);
    }
    return $client;
}
// [end connect]

// [snippet check]
/** Returns the fields of the reply, or null if Headgate could not decide. */
function check(string $policy, string $key, int $cost = 1): ?array
{
    try {
        $reply = headgate()->executeRaw(['HG.CHECK', $policy, $key, $cost], $failed);
    } catch (Predis\Connection\ConnectionException $e) {
        [$reply, $failed] = [$e->getMessage(), true];
        headgate()->disconnect(); // so that no check reads the late reply of another
    }
    if ($failed) { // executeRaw returns the text of an error and does not throw
        error_log("headgate: $reply");
        return null;
    }
    return array_column(array_chunk($reply, 2), 1, 0);
}
// [end check]

for ($i = 1; $i <= 4; $i++) {
    $decision = check('api', 'predis:user:42');
    if ($decision === null) {
        echo "not decided: allowed\n"; // fail open; for a login deny here (fail closed)
    } elseif ($decision['allowed']) {
        echo "allowed, {$decision['remaining']} left\n";
    } else {
        $retry = (int) ceil($decision['retry_after_ms'] / 1000);
        echo "denied, Retry-After: $retry\n";
    }
}
