// The store, its outages and leases, and the configuration in effect.

import { $, cells, el, list, press, replace, setText, show } from './dom.js';
import { ago, bytes, counted, milliseconds, when, whole } from './words.js';

const EVENTS = 8; // outages that are shown

export function showStore(status, degraded) {
  const { store, memory, leases } = status;
  const now = Date.parse(status.now);
  const facts = [
    ['Store', `${store.name}, ${store.shared ? 'shared by all instances' : 'of this instance only'}`],
    ['State', store.available ? `available, checked in ${milliseconds(store.check_ms * 1000)}` : `unavailable: ${store.reason}`],
    ['Circuit breakers', store.nodes.length ? store.nodes.map(({ node, reason, since }) => `${node} is open since ${when(since, now)}: ${reason}`).join('; ') : 'all closed'],
    ['Decided without it', degraded ? `${counted(degraded, 'request', 'requests')} in the shown time` : 'nothing in the shown time'],
    memory && ['Memory', `${counted(memory.keys, 'key', 'keys')} in ${bytes(memory.bytes)}${memory.overflowed ? `; ${whole(memory.overflowed)} decisions on shared entries, because it was full` : ''}`],
    leases && ['Leases', `${counted(leases.keys, 'key', 'keys')} with ${counted(leases.units, 'unit', 'units')}; ${whole(leases.decisions)} decisions in memory for ${counted(leases.store_calls, 'store call', 'store calls')}`],
    leases && (leases.failed > 0 || leases.stranded > 0 || leases.waits > 0) && ['Lease problems', `${whole(leases.failed)} failed calls, ${whole(leases.stranded)} stranded units, ${whole(leases.waits)} waits`],
    ['Instance', `${status.instance}, version ${status.version}, started ${ago(status.started_at, now)}`],
  ];
  showFacts($('store-facts'), facts.filter(Boolean));
  const outages = status.outages.slice().sort((a, b) => Date.parse(b.time) - Date.parse(a.time)).slice(0, EVENTS);
  replace($('outages'), outages, () => (outages.length ? outages.map(({ time, node, available, reason }) => el('li', { class: available ? 'found' : 'lost' },
    el('time', { datetime: time }, when(time, now)), el('span', {}, `${node} ${available ? 'recovered' : `unavailable: ${reason}`}`)))
    : el('li', {}, 'The store has been available since the start.')));
}

function showFacts(element, facts) {
  list(element, facts, ([term]) => term, ([term]) => el('div', {}, el('dt', {}, term), el('dd')), (part, [, text]) => setText(part.lastChild, text));
}

export class Configuration {
  constructor(api, address) {
    Object.assign(this, { api, address });
    this.generation = 0;
    this.history = [];
    for (const button of document.querySelectorAll('[data-config]')) button.addEventListener('click', () => address.set({ config: button.dataset.config }));
  }

  // poll reads the configuration again if another one took effect. It reports whether it did.
  async poll({ config }) {
    const known = this.generation === config.generation;
    if (!known) {
      [this.config, { configurations: this.history }] = await Promise.all([this.api.get('config'), this.api.get('config/history')]);
      this.generation = config.generation;
    }
    this.show(config);
    return !known;
  }

  show(state) {
    const problems = [state.error && `The current file is invalid, so the last valid configuration stays active: ${state.error}`,
      state.restart_required?.length && `A restart is required for: ${state.restart_required.join(', ')}.`];
    setText($('config-problem'), problems.filter(Boolean).join(' '));
    setText($('config-state'), `Configuration ${state.generation} is active since ${when(state.since)}${state.file ? `, from ${state.file}` : ', without a file'}.`);
    setText($('diff-line'), `headgate config diff ${state.file || 'headgate.yaml'} NEW.yaml --log access.log.1`);
    this.render();
  }

  render() {
    const view = ['changes', 'settings', 'text'].includes(this.address.get('config')) ? this.address.get('config') : 'changes';
    press('[data-config]', 'config', view);
    if (!this.config) return;
    replace($('config-view'), [view, this.generation], () => ({ changes: () => this.#changes(), settings: () => this.#settings(), text: () => this.#text() })[view]());
  }

  #changes() {
    const changed = this.history.filter(({ diff }) => diff.length);
    if (!changed.length) return el('p', { class: 'hint' }, 'The configuration has not changed since the start.');
    return changed.map(({ generation, since, diff }, i) => el('details', { class: 'change', open: i === 0 },
      el('summary', {}, `Configuration ${generation}, ${when(since)}: ${diff.filter(({ op }) => op === '+').length} lines added, ${diff.filter(({ op }) => op === '-').length} removed`),
      el('div', { class: 'diff', tabindex: 0, role: 'region', 'aria-label': `Changes of configuration ${generation}` },
        ...diff.map(({ op, line }) => el('div', { class: { '+': 'added', '-': 'removed' }[op] ?? null }, `${op} ${line}`)))));
  }

  #settings() {
    const own = this.config.settings.filter(({ origin }) => origin !== 'default');
    return [
      el('p', { class: 'hint' }, `${counted(own.length, 'setting differs', 'settings differ')} from the defaults, of ${whole(this.config.settings.length)}.`),
      own.length > 0 && el('div', { class: 'scroll bare limited', tabindex: 0, role: 'region', 'aria-label': 'Table of the settings' }, el('table', {},
        el('thead', {}, el('tr', {}, ...['Setting', 'Value', 'From'].map((name) => el('th', { scope: 'col' }, name)))),
        el('tbody', {}, ...own.map(({ path, value, origin }) => el('tr', {}, el('th', { scope: 'row' }, el('code', {}, path)), ...cells(['value', el('code', {}, value)], origin)))))),
    ];
  }

  #text() { return el('pre', { class: 'yaml', tabindex: 0, role: 'region', 'aria-label': 'The configuration as YAML' }, this.config.text); }

  // setting is the value of a setting, or an empty text.
  setting(path) { return this.config?.settings.find((setting) => setting.path === path)?.value ?? ''; }
}

// showEmpty shows how to send a first request, as long as there was none.
export function showEmpty(visible, configuration, policies) {
  const address = configuration.setting('http.addr').replaceAll('"', '');
  const usable = address !== '' && address !== 'off' && !address.startsWith('unix:');
  show($('empty'), visible && usable);
  if (!visible || !usable) return;
  const url = `http://${address.replace(/^(0\.0\.0\.0|\[::\]|\*)?:/, '127.0.0.1:')}/v1/check`;
  const policy = policies.find(({ key }) => !key)?.name;
  const bodies = [{ limit: '5/1m', key: 'alice' }, { limit: '5/1m', key: 'alice', cost: 5 }, policy ? { policy, key: 'bob' } : { limit: '100/1h', key: 'bob' }];
  setText($('empty-lines'), bodies.map((body) => `curl -d '${JSON.stringify(body)}' ${url}`).join('\n'));
}

