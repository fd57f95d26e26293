<?php
// What a program with phpredis does. Arguments: where the server is, a user and a password (or none). It prints a line for each step.
[, $address, $user, $password] = $argv + [null, null, '', ''];
$r = new Redis();
$unix = $address[0] === '/';
$unix ? $r->connect($address) : $r->connect('127.0.0.1', (int) $address);
if ($password !== '') {
	$r->auth($user === '' ? $password : [$user, $password]);
}
$r->select(0);

function step($name, $value)
{
	echo $name, ' ', json_encode($value), "\n";
}

step('ping', $r->ping());
step('throttle', $r->rawCommand('CL.THROTTLE', 'k', '15', '30', '60'));
step('denied', $r->rawCommand('CL.THROTTLE', 'k', '15', '30', '60', '20'));
try {
	$r->rawCommand('CL.THROTTLE', 'k', '15', '0', '60');
} catch (RedisException $e) {
	step('error', $e->getMessage());
}
step('check', $r->rawCommand('HG.CHECK', 'api', 'k'));
foreach (['pipeline' => Redis::PIPELINE, 'transaction' => Redis::MULTI] as $name => $kind) {
	$p = $r->multi($kind);
	$p->rawCommand('CL.THROTTLE', 'k', '15', '30', '60');
	$p->rawCommand('THROTTLE', 'k', '10', '10', '10');
	step($name, $p->exec());
}
step('info', $r->info()['redis_mode']);
step('name', [$r->client('SETNAME', 'test') ? 'OK' : '', $r->client('GETNAME')]);
// The server ends the connection, which the next request may find out. phpredis may find it out just behind its request: it connects anew then,
// and waits for a reply to what it sent before.
$r->setOption(Redis::OPT_READ_TIMEOUT, 5);
$r->rawCommand('QUIT');
try {
	$r->ping();
} catch (RedisException $e) {
}
step('again', $r->rawCommand('CL.THROTTLE', 'k', '15', '30', '60'));
