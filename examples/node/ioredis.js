// A rate limit check with ioredis, over the Redis-compatible endpoint.
import Redis from 'ioredis';

const timeout = Number(process.env.RATE_LIMIT_TIMEOUT_MS ?? 200); // ms

// [snippet connect]
// One connection for the whole process: checks that run at the same time are pipelined.
const headgate = new Redis(`redis://${process.env.RATE_LIMIT_RESP ?? '127.0.0.1:6380'}`, {
  connectTimeout: timeout,
  commandTimeout: timeout,
  maxRetriesPerRequest: 0, // do not resend a check: it may have been counted
  enableOfflineQueue: false, // do not queue checks while there is no connection
});
headgate.on('error', (err) => console.error('headgate:', err.message));
// [end connect]

// [snippet check]
// Returns the fields of the reply, or null if Headgate could not decide.
async function check(policy, key, cost = 1) {
  try {
    // A RESP2 reply is a flat list: name, value, name, value, …
    const reply = await headgate.call('HG.CHECK', policy, key, cost);
    const decision = {};
    for (let i = 0; i < reply.length; i += 2) decision[reply[i]] = reply[i + 1];
    return decision;
  } catch (err) {
    console.error('headgate:', err.message);
    return null;
  }
}
// [end check]

await new Promise((resolve) => headgate.once('ready', resolve).once('close', resolve));
for (let i = 1; i <= 4; i++) {
  const decision = await check('api', 'ioredis:user:42');
  if (decision === null) {
    console.log('not decided: allowed'); // fail open; for a login deny here (fail closed)
  } else if (decision.allowed) {
    console.log(`allowed, ${decision.remaining} left`);
  } else {
    console.log(`denied, Retry-After: ${Math.ceil(decision.retry_after_ms / 1000)}`);
  }
}
headgate.disconnect();
