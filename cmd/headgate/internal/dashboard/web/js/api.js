// Calls the admin API with the token of the user. The token is never in a URL or a cookie.

const ROOT = '../admin/v1/';
const STORED = 'headgate-token';
const PATIENCE = 10_000; // ms until a request is given up
const SLOW = 2000; // ms after which a request counts as slow

// Problem is a response without a result, or no response at all; status is then 0.
export class Problem extends Error {
  constructor(status, body) {
    super(body.detail ?? body.title ?? 'the service does not respond');
    this.status = status;
    this.field = body.field ?? '';
  }
}

export class Api {
  #token = '';

  constructor() {
    try {
      this.#token = sessionStorage.getItem(STORED) ?? '';
    } catch { /* storage may be forbidden: the token then lasts as long as the page */ }
    this.pending = new Map(); // requests in flight, by number, with the time at which they began
    this.number = 0;
  }

  get hasToken() { return this.#token !== ''; }

  setToken(token) {
    this.#token = token;
    try {
      if (token) sessionStorage.setItem(STORED, token);
      else sessionStorage.removeItem(STORED);
    } catch { /* as above */ }
  }

  // slow reports whether a request has been waiting for its response for too long.
  get slow() {
    const late = performance.now() - SLOW;
    for (const began of this.pending.values()) if (began < late) return true;
    return false;
  }

  get(path, parameters = {}) {
    const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== '' && value != null));
    return this.#call(query.size ? `${path}?${query}` : path, {});
  }

  post(path, body) {
    return this.#call(path, { method: 'POST', body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' } });
  }

  async #call(path, init) {
    const number = ++this.number;
    this.pending.set(number, performance.now());
    try {
      return await this.#send(path, init);
    } finally {
      this.pending.delete(number);
    }
  }

  async #send(path, init) {
    const headers = { ...init.headers };
    if (this.#token) headers.Authorization = `Bearer ${this.#token}`;
    let response;
    let body;
    try {
      response = await fetch(ROOT + path, { ...init, headers, cache: 'no-store', credentials: 'omit', signal: AbortSignal.timeout(PATIENCE) });
      body = await response.json();
    } catch {
      throw new Problem(response && !response.ok ? response.status : 0, {});
    }
    if (!response.ok) throw new Problem(response.status, body);
    return body;
  }
}
