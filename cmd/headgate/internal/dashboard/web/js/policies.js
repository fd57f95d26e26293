// The table of the policies with their traffic.

import { spark } from './chart.js';
import { $, el, list, setAttribute, setText, show } from './dom.js';
import { rates } from './health.js';
import { OUTCOMES, VIEWS, totals } from './series.js';
import { counted, percent, perSecond, whole } from './words.js';

const MOST = 25; // rows that are shown at first
const INLINE = '(inline limits)';

export const nameOf = (policy) => policy || INLINE;

export class Policies {
  constructor(address) {
    this.address = address;
    this.policies = [];
    $('policy-filter').value = address.get('filter');
    $('policy-filter').addEventListener('input', (event) => address.set({ filter: event.target.value }));
    $('policy-all').addEventListener('click', () => address.set({ all: address.get('all') ? '' : '1' }));
    for (const button of document.querySelectorAll('[data-sort]')) button.addEventListener('click', () => this.#sortBy(button.dataset.sort));
  }

  set(policies) { this.policies = policies; }

  // find returns the policy of the configuration with a name.
  find(name) { return this.policies.find((policy) => policy.name === name); }

  #sortBy(sort) {
    const again = this.address.get('sort') === sort;
    const first = sort === 'name' ? 'up' : 'down';
    this.address.set({ sort, order: again ? (this.address.get('order') === 'up' ? 'down' : 'up') : first });
  }

  show(series) {
    const view = VIEWS[this.address.get('span')] ?? VIEWS.live;
    const names = new Set([...this.policies.map(({ name }) => name), ...series.names]);
    const wanted = this.address.get('filter').toLowerCase();
    const rows = [];
    for (const name of names) {
      if (!nameOf(name).toLowerCase().includes(wanted)) continue;
      const window = series.window(name, view.slots);
      rows.push({ name, window, policy: this.find(name), ...totals(window) });
    }
    this.#sort(rows);
    const shown = this.address.get('all') ? rows : rows.slice(0, MOST);
    setText($('policy-count'), names.size ? whole(names.size) : '');
    setText($('policy-more'), rows.length ? '' : names.size ? 'No policy has this in its name.' : 'No policy is configured, and no request had an inline limit.');
    setText($('policy-all'), this.address.get('all') ? 'Show fewer' : `Show all ${counted(rows.length, 'policy', 'policies')}`);
    show($('policy-all'), rows.length > MOST);
    const body = $('policy-table').tBodies[0];
    list(body, shown, (row) => row.name, (row) => this.#makeRow(row), (element, row) => fillRow(element, row, this.address.get('policy')));
  }

  #sort(rows) {
    const sort = this.address.get('sort');
    const up = this.address.get('order') === 'up' ? 1 : -1;
    const value = (row) => (sort === 'failed' ? row.degraded + row.undecided : row[sort]);
    rows.sort((a, b) => (sort === 'name' ? 0 : up * (value(a) - value(b))) || (sort === 'name' ? up : 1) * nameOf(a.name).localeCompare(nameOf(b.name)));
    for (const button of document.querySelectorAll('[data-sort]')) {
      const direction = button.dataset.sort !== sort ? 'none' : up > 0 ? 'ascending' : 'descending';
      setAttribute(button.closest('th'), 'aria-sort', direction);
    }
  }

  #makeRow({ name }) {
    const choose = () => this.address.set({ policy: this.address.get('policy') === key(name) ? '' : key(name) });
    const button = el('button', { type: 'button', class: 'name', onclick: choose }, nameOf(name));
    const chart = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
    chart.setAttribute('class', 'spark');
    chart.setAttribute('aria-hidden', 'true');
    return el('tr', {},
      el('th', { scope: 'row' }, button, ' ', el('span', { class: 'badge mode' }), el('span', { class: 'limits' })),
      el('td', { class: 'trend' }, chart),
      ...['Requests/s', 'Allowed', 'Denied', 'Would deny', 'Without store'].map((label) => el('td', { class: 'num', 'data-label': label }, el('b'), ' ', el('small'))));
  }
}

// key is the name of a policy in the address of the page, where empty means all.
export const key = (name) => name || INLINE;

// unkey is the opposite of key; null means all policies.
export const unkey = (text) => (text === '' ? null : text === INLINE ? '' : text);

const MODES = { on: '', shadow: 'shadow', partial: '' };

function fillRow(row, { name, window, policy, ...all }, chosen) {
  const [head, trend, ...numbers] = row.cells;
  setAttribute(row, 'aria-current', chosen === key(name) ? 'true' : null);
  setAttribute(head.querySelector('button'), 'aria-pressed', String(chosen === key(name)));
  const mode = policy ? (policy.mode === 'partial' ? `enforced: ${policy.enforce}` : MODES[policy.mode]) : name ? 'not configured' : '';
  setText(head.querySelector('.mode'), mode);
  show(head.querySelector('.mode'), mode !== '');
  setText(head.querySelector('.limits'), policy ? policy.limits.map(({ limit }) => limit).join(', ') : name ? '' : 'checks with a limit of their own');
  spark(trend.firstChild, [rates(window, OUTCOMES), rates(window, ['denied'])], ['allowed', 'denied']);
  const failed = all.degraded + all.undecided;
  const texts = [
    [perSecond(all.rate), ''],
    [whole(all.allowed), ''],
    [whole(all.denied), all.denied ? percent(all.denied, all.all) : ''],
    [whole(all.shadow), all.shadow ? percent(all.shadow, all.all) : ''],
    [whole(failed), failed ? percent(failed, all.all) : ''],
  ];
  numbers.forEach((cell, i) => {
    setText(cell.children[0], texts[i][0]);
    setText(cell.children[1], texts[i][1]);
    setAttribute(cell, 'class', `num${['', '', ' no', ' would', ' failed'][i]}${texts[i][0] === '0' ? ' zero' : ''}`);
  });
}

// fillChoices fills a list of policies to choose from.
export function fillChoices(select, policies, first) {
  const names = policies.map(({ name }) => name);
  const key = JSON.stringify(names);
  if (select.names === key) return;
  select.names = key;
  const { value } = select;
  select.replaceChildren(...(first ? [el('option', { value: '' }, first)] : []), ...names.map((name) => el('option', { value: name }, name)));
  if (names.includes(value)) select.value = value;
}

