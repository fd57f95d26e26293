<?php
// A rate limit check with Guzzle, over the HTTP API.
require 'GuzzleHttp/autoload.php'; // Debian's package; with Composer: vendor/autoload.php

use GuzzleHttp\Client;
use GuzzleHttp\Exception\GuzzleException;

// [snippet connect]
function headgate(): Client
{
    static $client = null; // keeps its connection open between checks
    $timeout = (getenv('RATE_LIMIT_TIMEOUT_MS') ?: 200) / 1000; // seconds
    return $client ??= new Client([
        'base_uri' => getenv('RATE_LIMIT_HTTP') ?: 'http://127.0.0.1:8080',
        'connect_timeout' => $timeout,
        'timeout' => $timeout,
        'http_errors' => false, // 429 is a decision, not an error; without this line Guzzle throws
    ]);
}
// [end connect]

// [snippet check]
/** Returns the decision, or null if Headgate could not decide. */
function check(array $request): ?array
{
    try {
        $response = headgate()->post('/v1/check', ['json' => $request]);
        $body = (string) $response->getBody();
    } catch (GuzzleException $e) {
        error_log('headgate: ' . $e->getMessage());
        return null;
    }
    if (!in_array($response->getStatusCode(), [200, 429], true)) {
        error_log("headgate: $body"); // a problem: wrong request (4xx) or no decision (503)
        return null;
    }
    return json_decode($body, true, 512, JSON_THROW_ON_ERROR);
}
// [end check]

// [snippet use]
// A login: by address and by account, all or none. It fails closed.
for ($i = 1; $i <= 3; $i++) {
    $decision = check(['checks' => [
        ['policy' => 'login_ip', 'key' => 'guzzle:203.0.113.9'],
        ['policy' => 'login_account', 'key' => 'guzzle:ada'],
    ]]);
    if ($decision === null) {
        echo "not decided: denied\n"; // fail closed; a page that must not fail allows here
    } elseif ($decision['allowed']) {
        echo "allowed, {$decision['remaining']} left\n";
    } else {
        echo 'denied by ', implode(', ', $decision['denied_by']), "\n";
    }
}
// [end use]
