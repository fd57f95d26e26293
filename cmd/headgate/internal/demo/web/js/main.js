// Connects the page: events from the server update the panels, and a clock draws them.

import { Announcer } from './announce.js';
import { readInks } from './chart.js';
import { Code } from './code.js';
import { Controls } from './controls.js';
import * as fragment from './fragment.js';
import { Inspector } from './inspector.js';
import { form } from './marks.js';
import { Panel } from './panel.js';
import { Picture } from './picture.js';
import { act, connect } from './server.js';
import * as table from './table.js';
import { addToggle } from './toggle.js';
import { whole } from './words.js';

const $ = (id) => document.getElementById(id);
const panels = [...document.querySelectorAll('.panel')].map((element) => new Panel(element));
const inspector = new Inspector(panels);
const controls = new Controls();
controls.onLook = (algorithm) => inspector.choose(algorithm);
const code = new Code($('code'));
const announcer = new Announcer($('summary'));
const narrow = matchMedia('(max-width: 53.75em)');

const view = {
  now: 0, cursor: null, lastFrame: 0, span: 12e6, period: 4e6, anchor: 0, tallest: 1, edges: [], stopped: '', inks: readInks(), style: 0, settings: null,
};
const picture = new Picture(panels, view, showPause);
const link = { state: 'lost', failure: '' };
const known = { epoch: -1, sent: -1, note: '' };

for (const button of document.querySelectorAll('[data-code]')) button.addEventListener('click', () => code.choose(button.dataset.code));

connect({ onState, onFrame, onLink });

function onState(state, fresh) {
  if (fresh) begin(state);
  view.settings = state.settings;
  view.period = state.settings.period_ms * 1000;
  view.span = state.span_us;
  picture.playing = state.playing;
  known.note = state.note;
  $('note').textContent = state.note;
  for (const per of document.querySelectorAll('.per')) per.textContent = `${state.settings.period_ms / 1000} s`;
  controls.setState(state);
  controls.enable(true);
  code.set(state.code);
  $('panels').classList.toggle('two', state.tracks.length > 1);
  for (const panel of panels) panel.setTracks(state.tracks);
  picture.wake();
}

// begin starts a new session: with the settings of the former one, those in the address, or the first scenario.
function begin(state) {
  picture.restart();
  known.epoch = -1;
  const asked = fragment.read();
  if (controls.settings) act({ do: 'set', settings: controls.settings });
  else if (!asked) controls.play('edge');
  else {
    if (asked.n) controls.setBurst(asked.n);
    if (Object.keys(asked.settings).length) controls.do({ do: 'set', settings: { ...state.settings, ...asked.settings } });
    if (document.querySelector(`[data-scenario="${CSS.escape(asked.play ?? '')}"]`)) controls.play(asked.play);
  }
}

function onFrame(frame) {
  picture.follow(frame.t);
  if (frame.epoch !== known.epoch) clear(frame);
  if (frame.edge && frame.edge !== view.edges.at(-1)) view.edges.push(frame.edge);
  while (view.edges.length && view.edges[0] < Math.min(frame.t, view.now) - view.span - 2e6) view.edges.shift();
  view.anchor = frame.edge ?? 0;
  if (frame.tracks) takeTracks(frame.t, frame.tracks);
  if (frame.rows) table.fill($('requests'), frame.rows);
  $('sent').textContent = whole(frame.sent);
  $('speed').textContent = whole(frame.rate);
  showCountdown(frame);
  document.documentElement.dataset.sent = frame.sent;
  if (frame.sent) announcer.offer(summary(frame.sent));
  if (frame.sent !== known.sent) picture.touch(frame.t);
  else picture.wake();
  known.sent = frame.sent;
}

function clear(frame) {
  known.epoch = frame.epoch;
  view.edges = [];
  picture.active = frame.t;
  for (const panel of panels) panel.clear();
  table.fill($('requests'), []);
}

function takeTracks(t, tracks) {
  panels.forEach((panel, i) => panel.take(t, tracks.map((track) => track.gates[i]), view));
  view.lastFrame = t;
  link.failure = failure(tracks);
  showLink();
  const { history } = panels[0].tracks[0] ?? {};
  const tallest = Math.max(1, ...panels.map((panel) => panel.tallest()));
  const room = panels[0].chart.bands(0, tracks.length, view.inks.text).half - 3;
  const bars = form(tallest, room).kind === 'bars';
  $('unit').textContent = bars ? `bars: up to ${whole(tallest)} requests in ${Number((history.width / 1e6).toFixed(2))} s` : '1 mark = 1 request';
}

// showCountdown shows when the window ends that a scenario waits for.
function showCountdown(frame) {
  if (!known.note.startsWith('waiting for the window') || !frame.edge) return;
  $('note').textContent = `${known.note}: ${(Math.max(frame.edge - frame.t, 0) / 1e6).toFixed(1)} s`;
}

function summary(sent) {
  const parts = panels.map((panel) => {
    const parts = panel.tracks.map((track) => {
      const name = panel.tracks.length > 1 ? `${track.name} ` : '';
      return `${name}${track.totals?.allowed ?? 0} allowed, ${track.totals?.denied ?? 0} denied`;
    });
    return `${panel.title}: ${parts.join('; ')}`;
  });
  return `${sent} requests so far. ${parts.join('. ')}.`;
}

// failure returns why no algorithm can decide; empty if one can.
function failure(tracks) {
  const errors = tracks.flatMap((track) => track.gates.map((gate) => gate.levels[0].error));
  $('undecided').hidden = tracks.every((track) => track.gates.every((gate) => !gate.undecided));
  return errors.every(Boolean) ? errors[0] : '';
}

function onLink(state) {
  link.state = state;
  showLink();
  if (state !== 'live') controls.enable(false);
}

function showLink() {
  const texts = {
    live: link.failure ? `connected, but ${link.failure}` : 'live',
    lost: 'connection lost, retrying',
    refused: 'rejected: too many open pages? retrying',
    ended: 'session ended (idle): reload the page',
  };
  const text = texts[link.state];
  if ($('link').textContent !== text) $('link').textContent = text;
  $('dot').classList.toggle('live', link.state === 'live' && !link.failure);
  document.documentElement.dataset.link = link.state;
}

function showPause(on) {
  $('pause').setAttribute('aria-pressed', String(on));
}
$('pause').addEventListener('click', () => picture.pause(!picture.paused));

// Pointing at a chart shows the values at that time in all charts.
for (const panel of panels) {
  const { canvas } = panel.chart;
  canvas.addEventListener('pointermove', (event) => picture.point(panel.chart.time(event.offsetX, view)));
  canvas.addEventListener('pointerdown', (event) => picture.point(panel.chart.time(event.offsetX, view)));
  canvas.addEventListener('pointerleave', (event) => event.pointerType === 'mouse' && picture.point(null));
}

document.addEventListener('keydown', (event) => {
  const { target, key } = event;
  if (event.ctrlKey || event.metaKey || event.altKey || target.closest('input, select, textarea, [tabindex="0"]')) return;
  if (key === ' ' && target.closest('button, summary, a')) return;
  const actions = { ' ': () => picture.pause(!picture.paused), ArrowLeft: () => picture.step(-1), ArrowRight: () => picture.step(1), Escape: () => picture.pause(false) };
  if (!actions[key] || (key === 'Escape' && !picture.paused)) return;
  event.preventDefault();
  actions[key]();
});

addToggle($('theme'), () => {
  view.inks = readInks();
  view.style++;
  picture.wake();
});

// On a narrow screen the settings are collapsed, so that the panels are visible.
function fold() {
  $('settings').open = !narrow.matches;
}
narrow.addEventListener('change', fold);
fold();
document.documentElement.dataset.ready = '';
