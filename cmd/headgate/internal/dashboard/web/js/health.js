// The strip of figures: traffic, denials, latency, store and enforcement.

import { spark } from './chart.js';
import { $, setAttribute, setText, show } from './dom.js';
import { OUTCOMES, VIEWS, totals } from './series.js';
import { ago, milliseconds, percent, perSecond, whole } from './words.js';

// rate is the decisions per second of some outcomes in each complete slot.
export function rates(window, outcomes) {
  const result = [];
  for (let i = 0; i < window.slots - 1; i++) result.push(outcomes.reduce((all, name) => all + window.counts[name][i], 0) / (window.step / 1000));
  return result;
}

const sparks = Object.fromEntries([...document.querySelectorAll('[data-spark]')].map((element) => [element.dataset.spark, element]));

// showTraffic shows the figures of all policies.
export function showTraffic(series, view) {
  const { slots, name } = VIEWS[view];
  const window = series.window(null, slots);
  const all = totals(window);
  setText($('rate'), perSecond(all.rate));
  setText($('denied-share'), percent(all.denied, all.all));
  setText($('denied-rate'), all.all ? `${perSecond(all.rates.denied)}/s · ${whole(all.denied)} in ${name}` : '');
  setText($('shadow-share'), percent(all.shadow, all.all));
  setText($('shadow-rate'), all.all ? `${perSecond(all.rates.shadow)}/s · ${whole(all.shadow)} in ${name}` : '');
  const latency = series.latencies(slots);
  const last = latency.count.findLastIndex((count) => count > 0);
  setText($('p50'), last < 0 ? '–' : milliseconds(latency.p50_us[last]));
  setText($('p99'), last < 0 ? '–' : milliseconds(latency.p99_us[last]));
  spark(sparks.total, [rates(window, OUTCOMES)], ['allowed']);
  spark(sparks.denied, [rates(window, ['denied'])], ['denied']);
  spark(sparks.shadow, [rates(window, ['shadow'])], ['shadow']);
  spark(sparks.latency, [latency.p99_us], ['allowed']);
  return all;
}

const ENFORCEMENT = { on: 'On', shadow: 'Shadow: no request is denied', off: 'Off: all requests are allowed' };

export function showStatus(status) {
  const { store, config } = status;
  const now = Date.parse(status.now);
  setText($('store-name'), store.name);
  setText($('store-check'), store.available ? milliseconds(store.check_ms * 1000) : 'unavailable');
  const well = store.available && store.nodes.length === 0;
  setAttribute($('store-dot'), 'class', `dot ${well ? 'live' : 'bad'}`);
  setAttribute($('store-figure'), 'data-state', well ? 'good' : 'bad');
  setText($('store-note'), storeNote(status, now));
  setText($('enforcement'), ENFORCEMENT[status.enforcement]);
  setAttribute($('enforcement-figure'), 'data-state', status.enforcement === 'on' ? 'good' : 'bad');
  setText($('config-note'), config.error ? `configuration ${config.generation}; the current file is invalid` : `configuration ${config.generation}, ${ago(config.since, now)}`);
  setText($('instance').querySelector('b'), status.instance);
  show($('instance'), true);
}

function storeNote({ store, outages }, now) {
  if (!store.available) return store.reason || 'does not respond';
  if (store.nodes.length) return `${store.nodes.length === 1 ? 'a node is' : `${store.nodes.length} nodes are`} unavailable`;
  const last = outages.at(-1)?.available ? outages.at(-1) : outages[0];
  return last ? `last recovered ${ago(last.time, now)}` : 'no outage since the start';
}
