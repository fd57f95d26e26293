// An Express application with a rate limit middleware.
import express from 'express';
import { check } from './http.js';

// [snippet middleware]
export function rateLimit(policy, keyOf = (req) => req.ip) {
  return async (req, res, next) => {
    const decision = await check({ policy, key: keyOf(req) });
    if (decision === null || decision.allowed) return next(); // null: fail open
    res.set('Retry-After', String(Math.ceil(decision.retry_after_ms / 1000)));
    res.status(429).json({ error: 'too many requests' });
  };
}

const app = express();
app.get('/orders', rateLimit('api'), (req, res) => res.send('orders'));
// [end middleware]

const server = app.listen(Number(process.env.PORT ?? 3000), '127.0.0.1', async () => {
  if (process.env.PORT !== '0') return;
  for (let i = 1; i <= 4; i++) { // PORT=0 is the test
    const response = await fetch(`http://127.0.0.1:${server.address().port}/orders`);
    console.log(response.status, response.headers.get('Retry-After') ?? '-');
  }
  server.close();
  server.closeAllConnections();
});
