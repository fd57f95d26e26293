// Logs in the account ada from an address, once with each password of the command line.
// Only failures are charged.
import { createHmac, timingSafeEqual } from 'node:crypto';
import { isIPv4 } from 'node:net';
import { headgate } from './http.js';

const secret = process.env.LOGIN_SECRET ?? 'set a random secret of 16 bytes';

// [snippet keys]
// Hashes the parts of a key, so that the service and its store have no personal data.
function hashed(...parts) {
  return createHmac('sha256', secret).update(parts.join('\n')).digest('hex');
}

// Returns the address, or the first 64 bits of an IPv6 address, in hexadecimal.
function network(address) {
  const plain = address.replace(/^::ffff:(?=[\d.]+$)/i, ''); // an IPv4 address in IPv6
  if (isIPv4(plain)) return Buffer.from(plain.split('.').map(Number)).toString('hex');
  const host = new URL(`http://[${plain}]`).hostname.slice(1, -1); // with hexadecimal groups only
  const [head, tail = []] = host.split('::').map((half) => half.split(':').filter(Boolean));
  const missing = host.includes('::') ? 8 - head.length - tail.length : 0;
  return [...head, ...Array(missing).fill('0'), ...tail].slice(0, 4).map((g) => g.padStart(4, '0')).join('');
}
// [end keys]

// [snippet checks]
// Returns the checks of a login. known: the browser has a signed cookie of an earlier one.
function checks(account, address, known) {
  const net = network(address);
  const pair = { policy: 'login_pair', key: hashed(net, account) };
  if (known) return [pair];
  return [
    pair,
    { policy: 'login_address', key: hashed(net) },
    { policy: 'login_account', key: hashed(account) },
  ];
}
// [end checks]

// [snippet login]
// Returns a text for the user. The password is compared only if the limits allow it.
async function login(account, address, password, known) {
  const items = checks(account, address, known);
  const decision = await headgate('hold', { checks: items, ttl: '60s' });
  if (decision === null) return 'not decided: denied'; // fail closed, with status 503
  if (!decision.allowed) { // status 429
    console.error(`login denied by ${decision.denied_by.join(', ')}`); // not for the client
    const retry = Math.ceil(decision.retry_after_ms / 1000);
    return `too many attempts, Retry-After: ${retry}`;
  }
  if (!passwordIsRight(account, password)) return 'wrong password'; // the hold expires, and the charge stays
  await headgate('cancel', { hold: decision.hold });
  return 'logged in';
}
// [end login]

// A placeholder. A real one takes as long for an account that does not exist.
function passwordIsRight(account, password) {
  return account === 'ada' && timingSafeEqual(Buffer.from(hashed(password)), Buffer.from(hashed('right')));
}

for (const password of process.argv.slice(2)) {
  const address = process.env.LOGIN_ADDRESS ?? '203.0.113.9';
  console.log(await login('ada', address, password, process.env.LOGIN_KNOWN === '1'));
}
