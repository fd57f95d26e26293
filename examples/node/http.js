// Rate limit checks over the HTTP API, with Node's own HTTP client.
import http from 'node:http';

const timeout = Number(process.env.RATE_LIMIT_TIMEOUT_MS ?? 200); // ms

// [snippet check]
const url = process.env.RATE_LIMIT_HTTP ?? 'http://127.0.0.1:8080';
const agent = new http.Agent({ keepAlive: true });

// Returns the decision, or null if Headgate could not decide.
export const check = (request) => headgate('check', request);

// Calls an operation of the HTTP API, such as check or hold.
export async function headgate(operation, request) {
  try {
    const { status, body } = await post(`${url}/v1/${operation}`, JSON.stringify(request));
    if (status === 200 || status === 429) return body; // 429 is a decision, not an error
    console.error('headgate:', body.detail); // wrong request (4xx) or no decision (503)
  } catch (err) {
    console.error('headgate:', err.message);
  }
  return null;
}

function post(target, text) {
  return new Promise((resolve, reject) => {
    const request = http.request(target, { method: 'POST', agent }, async (response) => {
      try {
        const parts = await response.toArray();
        resolve({ status: response.statusCode, body: JSON.parse(Buffer.concat(parts)) });
      } catch (err) {
        reject(err);
      }
    });
    // For connecting and reading together.
    const timer = setTimeout(() => request.destroy(new Error(`no reply within ${timeout} ms`)), timeout);
    request.on('error', reject).on('close', () => clearTimeout(timer)).end(text);
  });
}
// [end check]
