// The time series of all policies, as long as one span. The service sends only the slots that the page does not have.

export const OUTCOMES = ['allowed', 'degraded', 'shadow', 'denied', 'undecided'];
const LATENCY = ['count', 'p50_us', 'p99_us'];

// VIEWS are the ranges that the page shows: the span of the API, and how many of its slots.
export const VIEWS = {
  live: { span: '5m', slots: 180, name: '3 min' },
  '15m': { span: '1h', slots: 90, name: '15 min' },
  '1h': { span: '1h', slots: 360, name: 'hour' },
  '12h': { span: '12h', slots: 720, name: '12 h' },
};

const sum = (values, from = 0) => {
  let total = 0;
  for (let i = Math.max(from, 0); i < values.length; i++) total += values[i];
  return total;
};

export class Series {
  constructor(span) {
    this.span = span;
    this.from = 0; // ms at which the first slot begins
    this.step = 0; // ms of a slot
    this.slots = 0;
    this.now = 0; // ms of the last response, by the clock of the service
    this.policies = new Map(); // by name, the counts of each outcome by slot
    this.latency = emptyOf(LATENCY, 0);
  }

  // parameters are those of the request for the slots that are not known or not complete.
  get parameters() {
    if (!this.slots) return { span: this.span };
    return { span: this.span, from: new Date(this.from + (this.slots - 1) * this.step).toISOString() };
  }

  // take adds a response. Slots that the page has are replaced; the oldest are dropped.
  take(response, most) {
    const from = Date.parse(response.from);
    const keep = this.slots ? Math.round((from - this.from) / this.step) : 0;
    if (!this.slots || response.step_ms !== this.step || keep < 0 || keep > this.slots) this.#clear(from, response.step_ms);
    const kept = Math.min(Math.max(Math.round((from - this.from) / this.step), 0), this.slots);
    const total = kept + response.slots;
    const drop = Math.max(total - most, 0);
    for (const name of Object.keys(response.policies)) if (!this.policies.has(name)) this.policies.set(name, emptyOf(OUTCOMES, kept));
    for (const [name, counts] of this.policies) {
      merge(counts, OUTCOMES, response.policies[name], kept, response.slots, drop);
      if (OUTCOMES.every((outcome) => sum(counts[outcome]) === 0)) this.policies.delete(name);
    }
    merge(this.latency, LATENCY, response.latency, kept, response.slots, drop);
    this.slots = total - drop;
    this.from += drop * this.step;
    this.now = Date.parse(response.now);
  }

  #clear(from, step) {
    Object.assign(this, { from, step, slots: 0, policies: new Map(), latency: emptyOf(LATENCY, 0) });
  }

  // names are the policies with decisions in the last slots.
  get names() { return [...this.policies.keys()]; }

  // window is the counts of a policy, or of all for null, in the last slots.
  window(policy, slots) {
    const begin = Math.max(this.slots - slots, 0);
    const found = policy === null ? [...this.policies.values()] : [this.policies.get(policy)].filter(Boolean);
    const counts = emptyOf(OUTCOMES, this.slots - begin);
    for (const one of found) for (const outcome of OUTCOMES) for (let i = begin; i < this.slots; i++) counts[outcome][i - begin] += one[outcome][i];
    return { from: this.from + begin * this.step, step: this.step, slots: this.slots - begin, now: this.now, counts };
  }

  latencies(slots) {
    const begin = Math.max(this.slots - slots, 0);
    return Object.fromEntries(LATENCY.map((name) => [name, this.latency[name].slice(begin)]));
  }
}

function emptyOf(names, length) {
  return Object.fromEntries(names.map((name) => [name, new Array(length).fill(0)]));
}

// merge replaces the slots from kept on, and drops the first ones.
function merge(target, names, added, kept, length, drop) {
  for (const name of names) {
    const values = target[name];
    values.length = Math.min(values.length, kept);
    while (values.length < kept) values.push(0);
    if (added) values.push(...added[name]);
    else for (let i = 0; i < length; i++) values.push(0);
    if (drop) values.splice(0, drop);
  }
}

// totals are the sums of a window, and the rates of its last seconds, without the slot that is not complete.
export function totals(window) {
  const result = {};
  for (const outcome of OUTCOMES) result[outcome] = sum(window.counts[outcome]);
  result.all = OUTCOMES.reduce((all, outcome) => all + result[outcome], 0);
  const complete = window.slots - 1;
  const last = Math.min(Math.max(Math.round(5000 / window.step), 1), complete);
  const seconds = (last * window.step) / 1000;
  const recent = (outcome) => (last > 0 ? sum(window.counts[outcome].slice(complete - last, complete)) / seconds : 0);
  result.rates = Object.fromEntries(OUTCOMES.map((outcome) => [outcome, recent(outcome)]));
  result.rate = OUTCOMES.reduce((all, outcome) => all + result.rates[outcome], 0);
  return result;
}
