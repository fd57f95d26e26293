// Connects the page: it polls the admin API, and passes what it returns to the parts.

import { Actions } from './actions.js';
import { Address } from './address.js';
import { Announcer } from './announce.js';
import { Api } from './api.js';
import { announceDone, closeDialog } from './dialog.js';
import { $, press, setAttribute, setText, show } from './dom.js';
import { showStatus, showTraffic } from './health.js';
import { Inspector } from './inspect.js';
import { Keys } from './keys.js';
import { Configuration, showEmpty, showStore } from './operations.js';
import { Poller } from './poller.js';
import { Policies, fillChoices } from './policies.js';
import { Audit, Denials } from './records.js';
import { Series, VIEWS } from './series.js';
import { addToggle } from './toggle.js';
import { Traffic } from './traffic.js';
import { percent, perSecond } from './words.js';

const MOST_SLOTS = { '5m': 300, '1h': 360, '12h': 720 };

const api = new Api();
const address = new Address();
const announcer = new Announcer($('summary'));
const actions = new Actions(api, () => poller.now());
const inspector = new Inspector(api, address, actions);
const policies = new Policies(address);
const traffic = new Traffic(address);
const keys = new Keys(api, address, inspector, actions);
const denials = new Denials(api, address, inspector);
const audit = new Audit(api, () => poller.now());
const configuration = new Configuration(api, address);
const series = new Map(); // by span of the API
let status = null;
let generation = 0; // of the policies that are known

const view = () => (VIEWS[address.get('span')] ? address.get('span') : 'live');

async function pollStatus() {
  const before = status?.store.available;
  status = await api.get('status');
  const canWrite = status.caller.scopes.includes('write');
  document.documentElement.dataset.scope = canWrite ? 'write' : 'read';
  show($('read-only'), !canWrite);
  inspector.canWrite = canWrite;
  keys.clear = status.keys === 'clear';
  signedIn();
  showStatus(status);
  if (status.config.generation !== generation) await pollPolicies();
  const changed = await configuration.poll(status);
  if (changed || before !== status.store.available) setText($('summary'), status.store.available ? `configuration ${generation} is active` : 'the store is unavailable');
  traffic.setMarks(configuration.history, status.outages);
}

async function pollPolicies() {
  const response = await api.get('policies');
  generation = response.generation;
  policies.set(response.policies);
  keys.policies = response.policies;
  fillChoices($('find-policy'), response.policies, 'All policies');
  $('find-policy').value = address.get('key-policy');
}

async function pollTimeline() {
  const { span } = VIEWS[view()];
  if (!series.has(span)) series.set(span, new Series(span));
  const one = series.get(span);
  one.take(await api.get('timeline', one.parameters), MOST_SLOTS[span]);
  showSeries();
}

// showSeries shows what is known of the chosen span.
function showSeries() {
  press('[data-span]', 'span', view());
  const one = series.get(VIEWS[view()].span);
  if (!one?.slots) return;
  const all = showTraffic(one, view());
  policies.show(one);
  traffic.show(one, policies);
  if (status) showStore(status, all.degraded + all.undecided);
  showEmpty(all.all === 0 && one.names.length === 0, configuration, policies.policies);
  if (all.all) announcer.offer(`${perSecond(Math.round(all.rate))} requests per second, ${percent(all.denied, all.all)} denied`);
  document.documentElement.dataset.polled = String(Number(document.documentElement.dataset.polled ?? 0) + 1);
}

const poller = new Poller([
  { run: pollStatus, every: 1000 },
  { run: pollTimeline, every: 1000 },
  { run: () => inspector.poll(), every: 1000 },
  { run: () => keys.poll(), every: 2000 },
  { run: () => denials.poll(), every: 2000 },
  { run: () => audit.poll(), every: 5000 },
], onRound);

// onRound shows the state of the connection, and why a request has no result.
function onRound(problem) {
  if (!problem) return showLink('');
  if (problem.status === 401) return signIn(api.hasToken ? 'The token is not valid (any more).' : '');
  if (problem.status === 403 && !status) return signIn(problem.message, api.hasToken);
  return showLink(problem.status === 0 ? 'lost' : problem.message);
}

function showLink(problem) {
  const state = problem === 'lost' ? 'lost' : problem ? 'problem' : poller.paused ? 'paused' : api.slow ? 'slow' : 'live';
  const texts = { lost: 'connection lost, retrying', problem: 'problem', paused: 'paused', slow: 'slow: waiting for the service', live: 'live' };
  setText($('link'), texts[state]);
  setAttribute($('dot'), 'class', `dot ${state === 'live' ? 'live' : state === 'lost' ? 'bad' : ''}`);
  document.documentElement.dataset.link = state;
  const banner = state === 'lost' ? 'The service does not respond. What you see is the last known state.' : state === 'problem' ? problem : '';
  setText($('banner'), banner);
  show($('banner'), banner !== '');
}

// signIn asks for a token, and hides everything else.
function signIn(problem, tokenHelps = true) {
  poller.stop();
  if ($('dialog').open) closeDialog();
  api.setToken('');
  status = null;
  series.clear();
  generation = configuration.generation = 0;
  setText($('link'), 'not signed in');
  setAttribute($('dot'), 'class', 'dot');
  document.documentElement.dataset.link = 'signed-out';
  for (const id of ['content', 'spans', 'pause', 'forget', 'instance', 'banner', 'read-only']) show($(id), false);
  show($('access-form'), tokenHelps || !problem || api.hasToken);
  setText($('access-problem'), problem);
  show($('access'), true);
  $('token').focus();
}

function signedIn() {
  show($('access'), false);
  for (const id of ['content', 'spans', 'pause']) show($(id), true);
  show($('forget'), api.hasToken);
}

$('access-form').addEventListener('submit', (event) => {
  event.preventDefault();
  api.setToken($('token').value.trim());
  $('token').value = '';
  setText($('access-problem'), '');
  poller.start();
});
$('forget').addEventListener('click', () => signIn(''));
$('pause').addEventListener('click', () => {
  poller.pause(!poller.paused);
  $('pause').setAttribute('aria-pressed', String(poller.paused));
  showLink('');
});
for (const button of document.querySelectorAll('[data-span]')) button.addEventListener('click', () => address.set({ span: button.dataset.span }));

// A filter that changes is shown now, with what is known, and then with what the service returns.
address.addEventListener('change', () => {
  inspector.follow();
  configuration.render();
  showSeries();
  $('policy-filter').value = address.get('filter');
  if (!$('content').hidden) poller.now();
});

for (const button of document.querySelectorAll('[data-copy]')) {
  button.addEventListener('click', async () => {
    await navigator.clipboard.writeText($(button.dataset.copy).textContent);
    announceDone('Copied');
  });
}

addToggle($('theme'));
press('[data-span]', 'span', view());
setInterval(() => document.documentElement.dataset.link === 'live' && api.slow && showLink(''), 500);
poller.start();
