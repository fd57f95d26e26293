// The state of one key under its policies, live: once per second while it is open.

import { spark, svg } from './chart.js';
import { $, el, list, replace, setAttribute, setText, show } from './dom.js';
import { duration, when, whole, counted } from './words.js';

const POINTS = 120; // seconds of history
const KNOWN = 200; // hashes whose key is remembered

export class Inspector {
  constructor(api, address, actions) {
    this.api = api;
    this.address = address;
    this.actions = actions;
    this.history = new Map(); // what was left, by policy and limit
    this.known = new Map(); // keys that were looked up, by policy and hash
    this.shown = null;
    this.canWrite = false;
    $('find').addEventListener('submit', (event) => {
      event.preventDefault();
      this.open($('find-key').value, $('find-policy').value);
    });
    $('close-key').addEventListener('click', () => {
      address.set({ key: '', 'key-policy': '' });
      $('find-key').value = '';
      $('find-key').focus();
    });
  }

  get isOpen() { return this.address.get('key') !== ''; }

  open(key, policy = '') {
    if (key === '') return $('find-key').focus();
    this.address.set({ key, 'key-policy': policy });
    if (!matchMedia('(min-width: 64em)').matches) $('inspector').scrollIntoView({ block: 'start' });
    return undefined;
  }

  // follow takes the key of the address.
  follow() {
    const asked = JSON.stringify([this.address.get('key'), this.address.get('key-policy')]);
    if (asked === this.asked) return;
    this.asked = asked;
    this.history.clear();
    setText($('find-problem'), '');
    if (this.isOpen) {
      $('find-key').value = this.address.get('key');
      $('find-policy').value = this.address.get('key-policy');
    } else {
      list($('key-states'), [], () => '', null);
      setText($('key-more'), '');
    }
    show($('find-hint'), !this.isOpen);
    show($('close-key'), this.isOpen);
    show($('watching'), false);
  }

  // poll reads the state of the key, if one is open.
  async poll() {
    this.follow();
    if (!this.isOpen) return;
    const { asked } = this;
    const [key, policy] = [this.address.get('key'), this.address.get('key-policy')];
    let result;
    try {
      result = await this.api.post('keys/inspect', policy ? { key, policy } : { key });
    } catch (problem) {
      if (problem.status === 0 || problem.status === 401) throw problem;
      if (asked === this.asked) this.#fail(problem);
      return;
    }
    if (asked !== this.asked) return;
    setText($('find-problem'), '');
    show($('watching'), true);
    for (const state of result.policies) this.#remember(state, key);
    setText($('key-more'), result.next ? 'Only the first 50 policies are shown. Choose one above.' : result.policies.length ? '' : 'No policy is configured.');
    list($('key-states'), result.policies, (state) => state.policy, (state) => this.#make(state, key), (element, state) => this.#fill(element, state));
  }

  #fail(problem) {
    setText($('find-problem'), problem.message);
    show($('watching'), false);
    list($('key-states'), [], () => '', null);
  }

  #remember({ policy, hash, limits }, key) {
    if (this.known.size >= KNOWN) this.known.delete(this.known.keys().next().value);
    this.known.set(`${policy} ${hash}`, key);
    for (const { limit, remaining } of limits) {
      const name = `${policy} ${limit}`;
      const values = this.history.get(name) ?? [];
      values.push(remaining);
      if (values.length > POINTS) values.shift();
      this.history.set(name, values);
    }
  }

  // keyOf is the key of a hash that was looked up before, or undefined.
  keyOf(policy, hash) { return this.known.get(`${policy} ${hash}`); }

  #make(state, key) {
    const { actions } = this;
    const { policy } = state;
    const limits = () => element.limits.map(({ limit }) => limit);
    const button = (text, run, danger) => el('button', { type: 'button', class: `quiet${danger ? ' danger' : ''}`, onclick: run }, text, el('span', { class: 'hidden' }, ` ${policy}`));
    const element = el('article', { class: 'state', 'data-policy': policy },
      el('header', {}, el('h3', {}, policy), el('span', { class: 'badge verdict' }), el('span', { class: 'badge mode' })),
      el('p', { class: 'source' }),
      el('p', { class: 'problem ban' }),
      el('p', { class: 'problem error' }),
      el('div', { class: 'limits' }),
      el('div', { class: 'actions writes' },
        button('Reset', () => actions.reset(policy, key)), button('Refund or debit', () => actions.adjust(policy, key)),
        button('Override', () => actions.override([], policy, key, limits())), button('Block', () => actions.block(policy, key), true)));
    return element;
  }

  #fill(element, state) {
    element.limits = state.limits;
    const [verdict, mode] = element.querySelectorAll('.badge');
    const decided = state.allowed !== undefined;
    setText(verdict, !decided ? 'unknown' : state.allowed ? 'allowed now' : 'denied now');
    setAttribute(verdict, 'class', `badge verdict ${!decided ? 'un' : state.allowed ? 'yes' : 'no'}`);
    setText(mode, state.mode === 'shadow' ? 'shadow' : '');
    show(mode, state.mode === 'shadow');
    setText(element.querySelector('.source'), sourceOf(state.source));
    setText(element.querySelector('.ban'), banOf(state));
    setText(element.querySelector('.error'), [state.error, state.degraded && `decided without the store: ${state.degraded}`].filter(Boolean).join('; '));
    list(element.querySelector('.limits'), state.limits, (limit) => limit.limit, () => makeLimit(), (part, limit) => this.#fillLimit(part, limit, state));
  }

  #fillLimit(part, limit, { policy }) {
    setText(part.querySelector('.limit'), limit.limit);
    setText(part.querySelector('.algorithm'), limit.algorithm.replaceAll('_', ' ') + (limit.leased ? ', leased by this instance' : ''));
    setText(part.querySelector('.left b'), whole(limit.remaining));
    setText(part.querySelector('.left small'), `of ${whole(limit.capacity)} left`);
    setAttribute(part.querySelector('rect'), 'width', limit.capacity ? (100 * Math.min(limit.remaining, limit.capacity)) / limit.capacity : 0);
    part.classList.toggle('exhausted', !limit.allowed);
    const times = [limit.allowed ? '' : `next in ${duration(limit.retry_after_ms)}`, limit.reset_after_ms ? `unused in ${duration(limit.reset_after_ms)}` : 'unused',
      limit.window ? `window ${when(limit.window.begin)} to ${when(limit.window.end)}` : ''];
    setText(part.querySelector('.times'), times.filter(Boolean).join(' · '));
    const values = this.history.get(`${policy} ${limit.limit}`) ?? [];
    spark(part.querySelector('.history'), [[...Array(Math.max(POINTS - values.length, 0)).fill(values[0] ?? 0), ...values]], ['allowed'], { columns: POINTS, top: limit.capacity });
    this.#fillRecords(part.querySelector('.holds'), 'hold', limit.holds, policy);
    this.#fillRecords(part.querySelector('.leases'), 'lease', limit.leases, policy);
  }

  #fillRecords(element, kind, records, policy) {
    show(element, Boolean(records?.open));
    if (!records?.open) return replace(element, null, () => []);
    const key = this.address.get('key');
    return replace(element, [records, this.canWrite], () => [
      el('h4', {}, `${counted(records.open, `open ${kind}`, `open ${kind}s`)} of ${counted(records.units, 'unit', 'units')}`),
      records.list.length > 0 && el('ul', { class: 'records' }, ...records.list.map((record) => el('li', {},
        el('code', {}, record.id_hash.slice(0, 12)), el('span', {}, counted(record.units, 'unit', 'units')),
        el('span', {}, `${record.begin ? `since ${when(record.begin)}, ` : ''}until ${when(record.deadline)}`),
        kind === 'hold' && this.canWrite && el('button', { type: 'button', class: 'quiet', onclick: () => this.actions.cancel(policy, key, record) },
          'Cancel', el('span', { class: 'hidden' }, ` the hold ${record.id_hash.slice(0, 12)}`))))),
      records.open > records.list.length && el('p', { class: 'hint' }, `and ${whole(records.open - records.list.length)} more`),
    ]);
  }
}

function makeLimit() {
  const meter = svg('svg', { class: 'bar', viewBox: '0 0 100 6', preserveAspectRatio: 'none', 'aria-hidden': 'true' });
  meter.append(svg('rect', { height: 6 }));
  return el('div', { class: 'limit-state' },
    el('p', { class: 'head' }, el('code', { class: 'limit' }), el('span', { class: 'algorithm' }), el('span', { class: 'left' }, el('b'), ' ', el('small'))),
    meter, svg('svg', { class: 'spark history', 'aria-hidden': 'true' }), el('p', { class: 'times' }), el('div', { class: 'holds' }), el('div', { class: 'leases' }));
}

// banOf is until when a key is banned, and what ends the ban; or empty.
function banOf({ ban, mode }) {
  if (!ban?.banned) return '';
  return `${mode === 'shadow' ? 'Would be banned' : 'Banned'} until ${when(ban.until)}, ban number ${whole(ban.bans)}. A reset ends the ban.`;
}

// sourceOf is which limits apply, and why.
function sourceOf({ kind, target, until, author, reason }) {
  if (kind === 'policy') return 'The limits of the policy apply.';
  if (kind === 'file') return `An override in the configuration file applies: ${target}.`;
  const parts = [`An override applies: ${target}`, author && `by ${author}`, until ? `until ${when(until)}` : 'without an end', reason && `“${reason}”`];
  return `${parts.filter(Boolean).join(', ')}.`;
}
