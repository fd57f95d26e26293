<?php
// What a program with Predis does. Arguments: where the server is, a user and a password (or none). It prints a line for each step.
require 'Predis/Autoloader.php';
Predis\Autoloader::register();

[, $address, $user, $password] = $argv + [null, null, '', ''];
$unix = $address[0] === '/';
$where = $unix ? ['scheme' => 'unix', 'path' => $address] : ['scheme' => 'tcp', 'host' => '127.0.0.1', 'port' => (int) $address];
if ($password !== '') {
	$where += ['username' => $user, 'password' => $password];
}
$r = new Predis\Client($where + ['database' => 0]);

function step($name, $value)
{
	echo $name, ' ', json_encode($value), "\n";
}

step('ping', (string) $r->ping() === 'PONG');
step('throttle', $r->executeRaw(['CL.THROTTLE', 'k', 15, 30, 60]));
step('denied', $r->executeRaw(['CL.THROTTLE', 'k', 15, 30, 60, 20]));
step('error', $r->executeRaw(['CL.THROTTLE', 'k', 15, 0, 60]));
step('check', $r->executeRaw(['HG.CHECK', 'api', 'k']));
$both = function ($p) {
	$p->executeCommand(new Predis\Command\RawCommand(['CL.THROTTLE', 'k', '15', '30', '60']));
	$p->executeCommand(new Predis\Command\RawCommand(['THROTTLE', 'k', '10', '10', '10']));
};
step('pipeline', $r->pipeline($both));
step('transaction', $r->transaction($both));
step('info', $r->info()['Server']['redis_mode']);
step('name', [(string) $r->client('SETNAME', 'test'), $r->client('GETNAME')]);
$r->executeRaw(['QUIT']); // the server ends the connection, which the next request finds out
try {
	$r->ping();
} catch (Predis\Connection\ConnectionException $e) {
	$r->disconnect();
}
step('again', $r->executeRaw(['CL.THROTTLE', 'k', 15, 30, 60]));
