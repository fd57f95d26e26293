// Connects the page: events from the server update the panels, and a clock draws them.

import { Announcer } from './announce.js';
import { readInks } from './chart.js';
import { Code } from './code.js';
import { Controls } from './controls.js';
import { Panel } from './panel.js';
import { act, connect } from './server.js';
import * as table from './table.js';
import { whole } from './words.js';

const $ = (id) => document.getElementById(id);
const panels = [...document.querySelectorAll('.panel')].map((element) => new Panel(element));
const controls = new Controls();
const code = new Code($('code'));
const announcer = new Announcer($('summary'));
const still = matchMedia('(prefers-reduced-motion: reduce)');
const dark = matchMedia('(prefers-color-scheme: dark)');

const narrow = matchMedia('(max-width: 53.75em)');

const LAG = 100e3; // µs of delay, so that events arrive before they are drawn
const view = { now: 0, lastFrame: 0, span: 15e6, unit: 1, edges: [], inks: readInks() };
const clock = { offset: null, epoch: -1, drawn: 0 };
const link = { state: 'lost', failure: '' };

for (const button of document.querySelectorAll('[data-code]')) button.addEventListener('click', () => code.choose(button.dataset.code));

connect({ onState, onFrame, onLink });
requestAnimationFrame(draw);

function onState(state, fresh) {
  if (fresh && controls.settings) { // a new session of the same page: it gets the previous settings
    act({ do: 'set', settings: controls.settings });
    clock.offset = null;
    clock.epoch = -1;
  }
  controls.setState(state);
  controls.enable(true);
  code.set(state.code);
  view.span = state.span_us;
  $('panels').classList.toggle('two', state.tracks.length > 1);
  for (const panel of panels) panel.setTracks(state.tracks);
}

function onFrame(frame) {
  const here = performance.now() * 1000;
  clock.offset = clock.offset === null ? frame.t - here : Math.max(clock.offset - 20, frame.t - here);
  if (frame.epoch !== clock.epoch) {
    clock.epoch = frame.epoch;
    view.edges = [];
    for (const panel of panels) panel.clear();
    table.fill($('requests'), []);
  }
  if (frame.edge && frame.edge !== view.edges.at(-1)) view.edges.push(frame.edge);
  while (view.edges.length && view.edges[0] < frame.t - view.span - 2e6) view.edges.shift();
  if (frame.tracks) takeTracks(frame.t, frame.tracks);
  if (frame.rows) table.fill($('requests'), frame.rows);
  $('unit').textContent = view.unit === 1 ? '1 mark = 1 request' : `1 mark = up to ${whole(view.unit)} requests`;
  $('sent').textContent = whole(frame.sent);
  $('speed').textContent = whole(frame.rate);
  document.documentElement.dataset.sent = frame.sent;
  if (frame.sent) announcer.offer(summary(frame.sent));
}

function takeTracks(t, tracks) {
  panels.forEach((panel, i) => panel.take(t, view.span, tracks.map((track) => track.gates[i])));
  view.lastFrame = t;
  view.unit = unitOf();
  link.failure = failure(tracks);
  showLink();
}

// unitOf returns the number of requests per mark: one, unless there is no room for one mark each.
function unitOf() {
  const { most, rows } = panels.map((panel) => panel.tallest()).reduce((a, b) => (a.most / a.rows >= b.most / b.rows ? a : b));
  for (let unit = 1; ; unit *= 10) {
    for (const step of [1, 2, 5]) if (most <= unit * step * rows) return unit * step;
  }
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

// draw runs with every animation frame, or twice a second with reduced motion.
function draw(at) {
  requestAnimationFrame(draw);
  if (clock.offset === null || (still.matches && at - clock.drawn < 500)) return;
  clock.drawn = at;
  view.now = at * 1000 + clock.offset - LAG;
  for (const panel of panels) panel.draw(view);
}

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === 'dark' : dark.matches;
}

function showTheme() {
  $('theme').setAttribute('aria-pressed', String(isDark()));
  view.inks = readInks();
}

$('theme').addEventListener('click', () => {
  const theme = isDark() ? 'light' : 'dark';
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem('headgate-theme', theme);
  } catch { /* storage may be forbidden: the choice then lasts as long as the page */ }
  showTheme();
});
dark.addEventListener('change', showTheme);
showTheme();

// On a narrow screen the settings are collapsed, so that the panels are visible.
function fold() {
  $('settings').open = !narrow.matches;
}
narrow.addEventListener('change', fold);
fold();
