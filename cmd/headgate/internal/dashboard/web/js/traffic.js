// The charts of all policies, or of the chosen one, with one cursor for all of them.

import { Chart } from './chart.js';
import { $, cells, el, list, replace, setAttribute, setText, show } from './dom.js';
import { key, nameOf, unkey } from './policies.js';
import { OUTCOMES, VIEWS } from './series.js';
import { clock, milliseconds, minute, perSecond, whole } from './words.js';

const ROWS = 12; // of the table of numbers

export class Traffic {
  constructor(address) {
    this.address = address;
    this.charts = {
      requests: new Chart($('chart-requests'), OUTCOMES),
      denied: new Chart($('chart-denied'), ['denied', 'shadow', 'undecided']),
      latency: new Chart($('chart-latency'), ['p99', 'allowed'], { lines: true }),
    };
    this.marks = [];
    this.at = null;
    $('clear-policy').addEventListener('click', () => address.set({ policy: '' }));
    $('numbers').addEventListener('toggle', () => this.#fillTable());
    this.#addCursor($('charts'));
  }

  #addCursor(group) {
    for (const chart of Object.values(this.charts)) {
      const move = (event) => this.#point(chart.slot(event.offsetX));
      chart.element.addEventListener('pointermove', move);
      chart.element.addEventListener('pointerdown', move);
    }
    group.addEventListener('pointerleave', (event) => event.pointerType === 'mouse' && this.#point(null));
    group.addEventListener('blur', () => this.#point(null));
    group.addEventListener('keydown', (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
      if (event.key === 'Escape') this.#point(null);
      if (step === undefined || !this.window) return;
      event.preventDefault();
      const last = this.window.slots - 2;
      this.#point(Math.max(0, Math.min((this.at ?? last + 1) + step, last)));
    });
  }

  #point(slot) {
    this.at = slot;
    for (const chart of Object.values(this.charts)) chart.point(slot);
    this.#showReadout();
  }

  // setMarks shows when configurations took effect and when the store was lost and found.
  setMarks(configurations, outages) {
    this.marks = [
      ...configurations.slice(0, -1).map(({ since, generation }) => (
        { time: Date.parse(since), kind: 'changed', short: `config ${generation}`, name: `Configuration ${generation} took effect` })),
      ...outages.map(({ time, node, available, reason }) => (
        { time: Date.parse(time), kind: available ? 'found' : 'lost', short: available ? 'recovered' : 'store lost', name: `${node} ${available ? 'recovered' : `unavailable: ${reason}`}` })),
    ];
  }

  show(series, policies) {
    const view = VIEWS[this.address.get('span')] ?? VIEWS.live;
    const name = unkey(this.address.get('policy'));
    const window = this.window = series.window(name, view.slots);
    setText($('traffic-title'), name === null ? 'All policies' : nameOf(name));
    show($('clear-policy'), name !== null);
    const complete = Math.max(window.slots - 1, 0);
    const seconds = window.step / 1000;
    const layer = (outcome) => window.counts[outcome].slice(0, complete).map((count) => count / seconds);
    const common = { from: window.from, step: window.step, marks: this.marks };
    this.charts.requests.set({ ...common, layers: OUTCOMES.map(layer) });
    this.charts.denied.set({ ...common, layers: ['denied', 'shadow', 'undecided'].map(layer) });
    show($('latency-figure'), name === null);
    if (name === null) {
      const latency = this.latency = series.latencies(view.slots);
      this.charts.latency.set({ ...common, layers: ['p99_us', 'p50_us'].map((field) => latency[field].slice(0, complete).map((us) => us / 1000)) });
    }
    this.#nameCharts();
    this.#showReadout();
    this.#fillTable();
    this.#showFacts(policies.find(name), name);
  }

  // nameCharts gives the charts a description of what they show now.
  #nameCharts() {
    const { counts, slots } = this.window;
    const most = (outcomes) => {
      let result = 0;
      for (let i = 0; i < slots - 1; i++) result = Math.max(result, outcomes.reduce((sum, name) => sum + counts[name][i], 0));
      return perSecond(result / (this.window.step / 1000));
    };
    setAttribute($('chart-requests'), 'aria-label', `Requests per second by outcome; at most ${most(OUTCOMES)}`);
    setAttribute($('chart-denied'), 'aria-label', `Denied requests per second; at most ${most(['denied'])}, and in shadow mode ${most(['shadow'])}`);
    setAttribute($('chart-latency'), 'aria-label', 'Latency of decisions: 50th and 99th percentile');
  }

  #showReadout() {
    const window = this.window;
    if (!window) return;
    const slot = this.at ?? window.slots - 2;
    if (slot < 0 || slot >= window.slots) return setText($('readout'), 'No complete time slot yet');
    const seconds = window.step / 1000;
    const rate = (outcome) => perSecond(window.counts[outcome][slot] / seconds);
    const parts = [`${rate('allowed')} allowed`, `${rate('denied')} denied`];
    if (window.counts.shadow[slot]) parts.push(`${rate('shadow')} would be denied`);
    if (window.counts.degraded[slot]) parts.push(`${rate('degraded')} allowed without store`);
    if (window.counts.undecided[slot]) parts.push(`${rate('undecided')} undecided`);
    if (!$('latency-figure').hidden && this.latency?.count[slot]) parts.push(`p99 ${milliseconds(this.latency.p99_us[slot])}`);
    const format = window.step >= 60_000 ? minute : clock;
    return setText($('readout'), `${format(window.from + slot * window.step)} · per second: ${parts.join(', ')}`);
  }

  #fillTable() {
    if (!$('numbers').open || !this.window) return;
    const { from, step, slots, counts } = this.window;
    const rows = [];
    for (let i = 0; i < ROWS; i++) {
      const begin = Math.floor((i * slots) / ROWS);
      const end = Math.floor(((i + 1) * slots) / ROWS);
      const total = (outcome) => whole(counts[outcome].slice(begin, end).reduce((sum, n) => sum + n, 0));
      if (end > begin) rows.push({ id: i, texts: [clock(from + begin * step), ...['allowed', 'denied', 'shadow', 'degraded', 'undecided'].map(total)] });
    }
    list($('numbers').querySelector('tbody'), rows, ({ id }) => id,
      ({ texts }) => el('tr', {}, ...cells(...texts.map((text, i) => [i ? 'num' : '', text]))),
      (row, { texts }) => texts.forEach((text, i) => setText(row.cells[i], text)));
  }

  #showFacts(policy, name) {
    show($('policy-facts'), Boolean(policy));
    if (!policy) return;
    replace($('policy-facts'), policy, () => [
      ['Limits', policy.limits.map(({ limit, algorithm }) => `${limit} (${algorithm.replaceAll('_', ' ')})`).join(', ')],
      ['Key', policy.key || 'given by the client'],
      ['Enforced', policy.mode === 'on' ? 'for every key' : policy.mode === 'shadow' ? 'for no key: shadow mode' : policy.enforce],
      ['Without the store', policy.on_store_error],
      policy.lease && ['Lease', `${policy.lease.share} for ${policy.lease.ttl_ms} ms`],
      policy.overrides_total > 0 && ['Overrides in the file', policy.overrides.map(({ match, limits }) => `${match}: ${limits.join(', ')}`).slice(0, 5).join('; ')
        + (policy.overrides_total > 5 ? ` and ${policy.overrides_total - 5} more` : '')],
      policy.routes.length > 0 && ['Routes', policy.routes.map((route) => `routes[${route}]`).join(', ')],
    ].filter(Boolean).map(([term, text]) => el('div', {}, el('dt', {}, term), el('dd', {}, text))));
    setAttribute($('policy-facts'), 'aria-label', key(name));
  }
}
