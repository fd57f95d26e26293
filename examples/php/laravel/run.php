<?php
// Runs routes/api.php in Laravel's application and router, and sends requests to it.
require 'Illuminate/autoload.php'; // Debian's package

use Illuminate\Config\Repository;
use Illuminate\Contracts\Debug\ExceptionHandler;
use Illuminate\Events\EventServiceProvider;
use Illuminate\Foundation\Application;
use Illuminate\Foundation\Exceptions\Handler;
use Illuminate\Http\Request;
use Illuminate\Log\LogServiceProvider;
use Illuminate\Redis\RedisServiceProvider;
use Illuminate\Routing\RoutingServiceProvider;
use Illuminate\Support\Facades\Facade;

error_reporting(E_ALL & ~E_DEPRECATED); // Debian's Laravel 8 is older than its PHP 8.2
require __DIR__ . '/app/Http/Middleware/RateLimit.php';

$app = new Application(__DIR__);
$app->instance('config', new Repository([
    'app' => ['debug' => false, 'env' => 'testing'],
    'database' => require __DIR__ . '/config/database.php',
    'logging' => ['default' => 'null', 'channels' => ['null' => ['driver' => 'errorlog']]],
]));
$app->singleton(ExceptionHandler::class, Handler::class);
foreach ([EventServiceProvider::class, LogServiceProvider::class, RoutingServiceProvider::class, RedisServiceProvider::class] as $provider) {
    $app->register($provider);
}
Facade::setFacadeApplication($app);
require __DIR__ . '/routes/api.php';

function send(Application $app): void
{
    $request = Request::create('/orders');
    $request->headers->set('Accept', 'application/json');
    $app->instance('request', $request);
    try {
        $response = $app['router']->dispatch($request);
    } catch (Throwable $e) {
        $response = $app[ExceptionHandler::class]->render($request, $e);
    }
    echo $response->getStatusCode(), ' ', $response->headers->get('Retry-After') ?? '-', "\n";
}

for ($i = 1; $i <= 4; $i++) {
    send($app);
}
