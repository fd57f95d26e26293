// A login by address and by account, all or none. It fails closed.
import { check } from './http.js';

for (let i = 1; i <= 3; i++) {
  // [snippet login]
  const decision = await check({
    checks: [
      { policy: 'login_ip', key: 'node:203.0.113.9' },
      { policy: 'login_account', key: 'node:ada' },
    ],
  });
  // [end login]
  if (decision === null) console.log('not decided: denied');
  else if (decision.allowed) console.log(`allowed, ${decision.remaining} left`);
  else console.log(`denied by ${decision.denied_by.join(', ')}`);
}
