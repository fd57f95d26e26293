// A rate limit check with axios, over the HTTP API.
import axios from 'axios';
import http from 'node:http';

const timeout = Number(process.env.RATE_LIMIT_TIMEOUT_MS ?? 200); // ms

// [snippet connect]
const headgate = axios.create({
  baseURL: process.env.RATE_LIMIT_HTTP ?? 'http://127.0.0.1:8080',
  timeout,
  httpAgent: new http.Agent({ keepAlive: true }),
  validateStatus: (status) => status === 200 || status === 429, // 429 is a decision, not an error
});
// [end connect]

for (let i = 1; i <= 4; i++) {
  try {
    const { data } = await headgate.post('/v1/check', { policy: 'api', key: 'axios:user:42' });
    console.log(data.allowed ? `allowed, ${data.remaining} left` : `denied, Retry-After: ${Math.ceil(data.retry_after_ms / 1000)}`);
  } catch (err) {
    console.error('headgate:', err.message);
    console.log('not decided: allowed'); // fail open
  }
}
