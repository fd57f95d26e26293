// A rate limit check with fetch, over the HTTP API.

const timeout = Number(process.env.RATE_LIMIT_TIMEOUT_MS ?? 200); // ms

// [snippet check]
const url = `${process.env.RATE_LIMIT_HTTP ?? 'http://127.0.0.1:8080'}/v1/check`;

// Returns the decision, or null if Headgate could not decide. fetch keeps connections
// open, does not retry, and does not throw for the status 429.
export async function check(request) {
  try {
    const response = await fetch(url, {
      method: 'POST',
      body: JSON.stringify(request),
      signal: AbortSignal.timeout(timeout), // for connecting and reading together
    });
    const body = await response.json();
    if (response.status === 200 || response.status === 429) return body;
    console.error('headgate:', body.detail); // wrong request (4xx) or no decision (503)
  } catch (err) {
    console.error('headgate:', err.message);
  }
  return null;
}
// [end check]
