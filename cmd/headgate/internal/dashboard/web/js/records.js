// Recent denials, and the audit.

import { $, cells, el, list, setText, show } from './dom.js';
import { nameOf, unkey } from './policies.js';
import { duration, when, whole } from './words.js';

const DENIALS = 50;
const ENTRIES = 30;

const APIS = { http: 'HTTP', grpc: 'Envoy', resp: 'Redis', forward_auth: 'forward-auth' };

export class Denials {
  constructor(api, address, inspector) { Object.assign(this, { api, address, inspector }); }

  async poll() {
    const { denials, omitted } = await this.api.get('denials', { policy: unkey(this.address.get('policy')) ?? '', n: DENIALS });
    let number = 0; // entries have no id: equal ones differ by their order
    const seen = new Map();
    const entries = denials.map((denial) => {
      const text = JSON.stringify(denial);
      number = (seen.get(text) ?? 0) + 1;
      seen.set(text, number);
      return { id: `${text} ${number}`, ...denial };
    });
    list($('denial-table').tBodies[0], entries, ({ id }) => id, (denial) => this.#make(denial));
    const texts = [entries.length === 0 && 'Nothing was denied.', omitted > 0 && `${whole(omitted)} more were not recorded: at most 1,000 per second are.`];
    setText($('denials-note'), texts.filter(Boolean).join(' '));
    show($('denial-table').closest('.scroll'), entries.length > 0);
  }

  #make({ time, api, policy, rule, limit, key, retry_after_ms: retry, shadow }) {
    const known = this.inspector.keyOf(policy, key);
    return el('tr', {}, el('th', { scope: 'row' }, el('time', { datetime: time }, when(time))),
      ...cells(['of-policy', el('b', {}, rule || nameOf(policy)), el('span', { class: 'limits' }, limit)], ['of-key', el('code', {}, key), known ? ` ${known}` : ''],
        ['num', duration(retry)], ['', el('span', { class: `badge ${shadow ? '' : 'no'}` }, shadow ? 'shadow: allowed' : 'denied'), ' ', el('small', {}, APIS[api] ?? api)]));
  }
}

export class Audit {
  constructor(api, repeat) {
    this.api = api;
    this.pages = 1;
    $('audit-older').addEventListener('click', () => {
      this.pages++;
      repeat();
    });
  }

  async poll() {
    const entries = [];
    let next = '';
    for (let page = 0; page < this.pages; page++) {
      const response = await this.api.get('audit', { n: ENTRIES, before: next });
      entries.push(...response.entries);
      next = response.next ?? '';
      if (!next) break;
    }
    list($('audit-table').tBodies[0], entries, ({ id }) => id, make);
    setText($('audit-note'), entries.length ? '' : 'Nobody has changed anything yet.');
    show($('audit-table').closest('.scroll'), entries.length > 0);
    show($('audit-older'), next !== '');
  }
}

function make({ time, author, action, instance, policy, target, key, before, after, reason }) {
  const change = [before, after].filter(Boolean).join(' → ');
  return el('tr', {}, el('th', { scope: 'row' }, el('time', { datetime: time, title: instance }, when(time))),
    ...cells(author, action, policy ?? '', target || key ? el('code', {}, key ?? target) : '', ['change', change], ['reason', reason ?? '']));
}
