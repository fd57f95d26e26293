<?php
// Logs in the account ada from an address, once with each password of the command line.
// Only failures are charged.

// [snippet keys]
/** Hashes the parts of a key, so that the service and its store have no personal data. */
function hashed(string ...$parts): string
{
    $secret = getenv('LOGIN_SECRET') ?: 'set a random secret of 16 bytes';
    return hash_hmac('sha256', implode("\n", $parts), $secret);
}

/** Returns the address, or the first 64 bits of an IPv6 address, in hexadecimal. */
function network(string $address): string
{
    $bytes = inet_pton($address);
    if (substr($bytes, 0, 12) === "\0\0\0\0\0\0\0\0\0\0\xff\xff") { // an IPv4 address in IPv6
        $bytes = substr($bytes, 12);
    }
    return bin2hex(substr($bytes, 0, 8));
}
// [end keys]

// [snippet checks]
/** Returns the checks of a login. $known: the browser has a signed cookie of an earlier one. */
function checks(string $account, string $address, bool $known): array
{
    $network = network($address);
    $checks = [['policy' => 'login_pair', 'key' => hashed($network, $account)]];
    if (!$known) {
        $checks[] = ['policy' => 'login_address', 'key' => hashed($network)];
        $checks[] = ['policy' => 'login_account', 'key' => hashed($account)];
    }
    return $checks;
}

/** Calls an operation. Returns the decision, or null if Headgate could not decide. */
function headgate(string $operation, array $request): ?array
{
    static $curl = null; // keeps its connection open
    $curl ??= curl_init();
    curl_setopt_array($curl, [
        CURLOPT_URL => (getenv('RATE_LIMIT_HTTP') ?: 'http://127.0.0.1:8080') . "/v1/$operation",
        CURLOPT_POSTFIELDS => json_encode($request),
        CURLOPT_RETURNTRANSFER => true,
        CURLOPT_TIMEOUT_MS => (int) (getenv('RATE_LIMIT_TIMEOUT_MS') ?: 200), // to connect and to read
    ]);
    $body = curl_exec($curl);
    $status = curl_getinfo($curl, CURLINFO_RESPONSE_CODE);
    if ($body === false || ($status !== 200 && $status !== 429)) {
        error_log('headgate: ' . ($body === false ? curl_error($curl) : $body));
        return null;
    }
    return json_decode($body, true, 512, JSON_THROW_ON_ERROR);
}
// [end checks]

// [snippet login]
/** Returns a text for the user. The password is compared only if the limits allow it. */
function login(string $account, string $address, string $password, bool $known): string
{
    $checks = checks($account, $address, $known);
    $decision = headgate('hold', ['checks' => $checks, 'ttl' => '60s']);
    if ($decision === null) {
        return 'not decided: denied'; // fail closed, with status 503
    }
    if (!$decision['allowed']) { // status 429
        error_log('login denied by ' . implode(', ', $decision['denied_by'])); // not for the client
        $retry = (int) ceil($decision['retry_after_ms'] / 1000);
        return "too many attempts, Retry-After: $retry";
    }
    if (!password_is_right($account, $password)) {
        return 'wrong password'; // the hold expires, and the charge stays
    }
    headgate('cancel', ['hold' => $decision['hold']]);
    return 'logged in';
}
// [end login]

/** A placeholder. A real one takes as long for an account that does not exist. */
function password_is_right(string $account, string $password): bool
{
    return $account === 'ada' && hash_equals('right', $password);
}

$known = getenv('LOGIN_KNOWN') === '1';
$address = getenv('LOGIN_ADDRESS') ?: '203.0.113.9';
foreach (array_slice($argv, 1) as $password) {
    echo login('ada', $address, $password, $known), "\n";
}
