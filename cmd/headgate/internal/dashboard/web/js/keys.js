// The keys in heavy use, and the overrides in the store.

import { $, cells, el, list, press, replace, setAttribute, setText, show } from './dom.js';
import { nameOf, unkey } from './policies.js';
import { counted, duration, limitsOf, perSecond, when, whole } from './words.js';

const HOT = 15; // rows of hot keys
const OVERRIDES = 100; // rows of overrides

export class Keys {
  constructor(api, address, inspector, actions) {
    Object.assign(this, { api, address, inspector, actions });
    this.clear = false; // whether the service reports keys, not hashes
    this.policies = [];
    for (const button of document.querySelectorAll('[data-keys]')) button.addEventListener('click', () => address.set({ keys: button.dataset.keys }));
    $('new-override').addEventListener('click', () => actions.override(this.policies, unkey(address.get('policy')) ?? '', undefined, []));
  }

  get kind() { return ['denied', 'admitted', 'overrides'].includes(this.address.get('keys')) ? this.address.get('keys') : 'denied'; }

  async poll() {
    press('[data-keys]', 'keys', this.kind);
    const policy = unkey(this.address.get('policy')) ?? '';
    const { kind } = this;
    if (kind === 'overrides') {
      const response = await this.api.get('overrides', { policy, n: OVERRIDES });
      if (kind === this.kind) this.#showOverrides(response);
    } else {
      const response = await this.api.get('hot-keys', { policy, n: HOT });
      if (kind === this.kind) this.#showHot(response[kind], kind);
    }
  }

  #columns(...names) {
    replace($('key-table').tHead, names, () => el('tr', {}, ...names.map((name) => el('th', { scope: 'col', class: name.startsWith('#') ? 'num' : null }, name ? name.replace('#', '') : el('span', { class: 'hidden' }, 'Actions')))));
  }

  #show(entries, id, make, update) {
    const body = $('key-table').tBodies[0];
    if (body.kind !== this.kind) list(body, [], () => '', null);
    body.kind = this.kind;
    list(body, entries, id, make, update);
  }

  #showHot(entries, kind) {
    this.#columns('Key', 'Policy', '#Per second', kind === 'denied' ? '#Denials' : '#Requests', '');
    const top = Math.max(...entries.map(({ per_second: rate }) => rate), 1e-9);
    this.#show(entries, ({ policy, key }) => JSON.stringify([policy, key]), (entry) => this.#makeHot(entry), (row, entry) => {
      const [key, , rate, count] = row.cells;
      const known = this.inspector.keyOf(entry.policy, entry.key);
      setText(key.querySelector('.known'), known ? ` ${known}` : '');
      show(key.querySelector('.badge'), entry.shadow);
      setText(rate.querySelector('b'), perSecond(entry.per_second));
      setAttribute(rate.querySelector('rect'), 'width', ((100 * entry.per_second) / top).toFixed(1));
      setText(count, `${kind === 'admitted' ? '≈ ' : ''}${whole(entry.count)}${entry.error ? ` ± ${whole(entry.error)}` : ''}`);
      const open = row.cells[4].querySelector('button');
      show(open, this.clear || known !== undefined);
    });
    const none = kind === 'denied' ? 'No key was denied in the last minutes.' : 'No key was admitted in the last minutes.';
    const hashes = this.clear ? '' : ' Keys are shown as hashes. Inspect a key to find its row; the setting admin.keys shows all keys.';
    setText($('keys-note'), entries.length ? `${kind === 'admitted' ? 'Counts are estimates from a sample.' : 'Counts halve every ten minutes.'}${hashes}` : none);
  }

  #makeHot({ policy, key }) {
    const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
    svg.setAttribute('class', 'share');
    svg.setAttribute('aria-hidden', 'true');
    svg.setAttribute('viewBox', '0 0 100 4');
    svg.setAttribute('preserveAspectRatio', 'none');
    const bar = svg.appendChild(document.createElementNS('http://www.w3.org/2000/svg', 'rect'));
    bar.setAttribute('height', '4');
    const open = () => this.inspector.open(this.clear ? key : this.inspector.keyOf(policy, key), policy);
    return el('tr', {}, el('th', { scope: 'row', class: 'of-key' }, el('code', {}, key === '' ? '(empty)' : key), el('span', { class: 'known' }), ' ', el('span', { class: 'badge' }, 'shadow')),
      ...cells(nameOf(policy), ['num rate', el('b'), svg], ['num', ''], ['act', el('button', { type: 'button', class: 'quiet', onclick: open }, 'Inspect', el('span', { class: 'hidden' }, ` ${key}`))]));
  }

  #showOverrides({ overrides, total }) {
    this.#columns('For', 'Policy', 'Limits', 'Ends', 'Reason', '');
    this.#show(overrides.slice(0, OVERRIDES), (entry) => JSON.stringify(entry), (entry) => this.#makeOverride(entry), (row, entry) => {
      setText(row.cells[3], entry.until ? `in ${duration(Date.parse(entry.until) - Date.now())}` : 'never');
    });
    const all = total ?? overrides.length;
    setText($('keys-note'), all === 0 ? 'There is no override in the store.' : all > overrides.length ? `The first ${whole(overrides.length)} of ${counted(all, 'override', 'overrides')}. Choose a policy to see its own.` : '');
  }

  #makeOverride(entry) {
    const key = entry.target.startsWith('key:') ? entry.target.slice(4) : null;
    const buttons = [
      key !== null && el('button', { type: 'button', class: 'quiet', onclick: () => this.inspector.open(key, entry.policy) }, 'Inspect', el('span', { class: 'hidden' }, ` ${key}`)),
      el('button', { type: 'button', class: 'quiet danger writes', onclick: () => this.actions.remove(entry) }, 'Remove', el('span', { class: 'hidden' }, ` the override of ${entry.target}`)),
    ].filter(Boolean);
    return el('tr', {}, el('th', { scope: 'row', class: 'of-key' }, el('code', {}, entry.target)),
      ...cells(entry.policy, el('code', {}, limitsOf(entry.limits)), ['', ''],
        ['reason', entry.reason ?? '', ' ', el('small', {}, `${entry.author}, ${when(entry.created)}`), entry.ignored ? el('small', { class: 'no' }, ` no effect: ${entry.ignored}`) : ''],
        ['act', ...buttons]));
  }
}
