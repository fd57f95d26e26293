<?php

return [
    'redis' => [
        'client' => 'phpredis',
        // [snippet connection]
        'headgate' => [
            'host' => env('RATE_LIMIT_HOST', '127.0.0.1'),
            'port' => env('RATE_LIMIT_PORT', '6380'),
            'database' => 0, // Headgate has no other; Laravel's connection “cache” selects 1
            'timeout' => env('RATE_LIMIT_TIMEOUT', 0.2), // seconds to connect
            'read_timeout' => env('RATE_LIMIT_TIMEOUT', 0.2),
            'persistent' => true,
            'persistent_id' => 'headgate',
        ],
        // [end connection]
    ],
];
