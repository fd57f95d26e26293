<?php

namespace App\Http\Middleware;

use Closure;
use Illuminate\Http\Request;
use Illuminate\Support\Facades\Redis;
use Symfony\Component\HttpKernel\Exception\TooManyRequestsHttpException;

// [snippet middleware]
class RateLimit
{
    public function handle(Request $request, Closure $next, string $policy)
    {
        $key = $request->user()?->getAuthIdentifier() ?? $request->ip();
        try {
            $reply = Redis::connection('headgate')->client()->rawCommand('HG.CHECK', $policy, $key);
        } catch (\RedisException $e) {
            Redis::purge('headgate');
            report($e);
            return $next($request); // fail open; abort(503) fails closed
        }
        $decision = array_column(array_chunk($reply, 2), 1, 0);
        if (! $decision['allowed']) {
            throw new TooManyRequestsHttpException((int) ceil($decision['retry_after_ms'] / 1000));
        }
        return $next($request);
    }
}
// [end middleware]
