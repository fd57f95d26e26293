<?php

use App\Http\Middleware\RateLimit;
use Illuminate\Support\Facades\Route;

// [snippet routes]
Route::get('/orders', fn () => 'orders')->middleware(RateLimit::class . ':api');
// [end routes]
