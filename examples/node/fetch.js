// A rate limit check with fetch, over the HTTP API.

const timeout = Number(process.env.RATE_LIMIT_TIMEOUT_MS ?? 200); // ms

// [snippet check]
const url = `${process.env.RATE_LIMIT_HTTP ?? 'http://127.0.0.1:8080'}/v1/check`;

// Returns the decision, or null if Headgate could not decide. fetch keeps connections
// open, does not retry, and does not throw for the status 429.
export async function check(request) {
  // For connecting and reading together. Node 18 may lose an AbortSignal.timeout.
  const abort = new AbortController();
  const timer = setTimeout(() => abort.abort(), timeout);
  try {
    const response = await fetch(url, {
      method: 'POST',
      body: JSON.stringify(request),
      signal: abort.signal,
    });
    const body = await response.json();
    if (response.status === 200 || response.status === 429) return body;
    console.error('headgate:', body.detail); // wrong request (4xx) or no decision (503)
  } catch (err) {
    console.error('headgate:', err.message);
  } finally {
    clearTimeout(timer);
  }
  return null;
}
// [end check]
