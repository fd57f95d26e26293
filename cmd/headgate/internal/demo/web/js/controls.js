// The controls: input becomes actions, and the state from the server becomes values.

import * as fragment from './fragment.js';
import { act } from './server.js';

const $ = (id) => document.getElementById(id);
const NUMBERS = { rate: 'rate', capacity: 'burst', queue: 'queue', cost: 'cost' };
const FIELDS = { rate: 'rate', period_ms: 'period', burst: 'capacity', queue: 'queue', cost: 'cost', key: 'key', dialect: 'dialect', n: 'n', stream: 'rate-stream' };

const same = (a, b) => Object.keys(a).every((name) => a[name] === b[name]);

export class Controls {
  constructor() {
    this.settings = null;
    this.onLook = () => {}; // called with the algorithm that a scenario is about
    this.pending = null; // entered, not yet sent
    this.wanted = null; // sent, not yet confirmed
    $('controls').addEventListener('submit', (event) => event.preventDefault());
    this.press('one', () => ({ do: 'send', n: 1 }));
    this.press('burst', () => ({ do: 'send', n: $('n').valueAsNumber }));
    this.press('stream', () => ({ do: 'stream', rate: $('rate-stream').valueAsNumber }));
    this.press('stop', () => ({ do: 'stop' }));
    this.press('reset', () => ({ do: 'reset' }));
    for (const pill of this.pills) {
      pill.addEventListener('click', () => {
        const playing = pill.getAttribute('aria-pressed') === 'true';
        if (playing) return this.do({ do: 'stop' });
        fragment.write(null, null, pill.dataset.scenario);
        this.shared = false;
        return this.play(pill.dataset.scenario);
      });
    }
    this.wireStream();
    for (const id of [...Object.keys(NUMBERS), 'period', 'key']) {
      $(id).addEventListener('input', () => this.later());
      $(id).addEventListener('change', () => this.set());
    }
    $('dialect').addEventListener('change', () => this.set());
    $('preset').addEventListener('change', () => this.applyPreset());
    $('n').addEventListener('change', () => this.share());
  }

  // applyPreset sets the limit of the chosen example.
  applyPreset() {
    const values = $('preset').selectedOptions[0].dataset;
    if (!values.rate) return;
    for (const id of ['rate', 'period', 'capacity', 'queue', 'cost']) $(id).value = values[id];
    this.explain('none');
    this.set();
  }

  // share writes the settings into the address of the page, unless they are those of a scenario.
  share() {
    if (this.shared && !this.playing) fragment.write(this.settings, $('n').valueAsNumber);
  }

  // play starts a scenario.
  play(scenario) {
    this.explain(scenario);
    const [look] = document.querySelector(`[data-scenario=${scenario}]`).dataset.look.split(' ');
    if (look) this.onLook(look);
    return this.do({ do: 'scenario', scenario });
  }

  setBurst(n) {
    $('n').value = Math.min(Math.max(n, 1), $('n').max);
    $('n').dispatchEvent(new Event('input'));
  }

  get pills() { return document.querySelectorAll('[data-scenario]'); }

  // press connects a button to an action, which hides the text of a finished scenario.
  press(id, action) {
    $(id).addEventListener('click', () => {
      if (id !== 'stop' && (!this.playing || this.playing === 'stream')) this.explain('none');
      this.do(action());
    });
  }

  wireStream() {
    const label = () => {
      for (const [id, name] of [['n', 'label-n'], ['rate-stream', 'label-rate']]) {
        const value = $(id).valueAsNumber;
        $(name).textContent = Number.isNaN(value) ? '…' : value.toLocaleString('en');
      }
    };
    $('n').addEventListener('input', label);
    $('rate-stream').addEventListener('input', () => {
      $('rate-slider').value = Math.round(10 * Math.log10(Math.max($('rate-stream').valueAsNumber || 0.1, 0.1)));
      label();
    });
    $('rate-stream').addEventListener('change', () => this.restream());
    $('rate-slider').addEventListener('input', () => {
      $('rate-stream').value = Number((10 ** ($('rate-slider').value / 10)).toPrecision(2));
      label();
    });
    $('rate-slider').addEventListener('change', () => this.restream());
  }

  // restream changes the rate of a running stream.
  restream() {
    if (this.playing === 'stream') this.do({ do: 'stream', rate: $('rate-stream').valueAsNumber });
  }

  // later sends the settings after a pause in typing.
  later() {
    clearTimeout(this.pending);
    this.pending = setTimeout(() => this.set(), 350);
  }

  set() {
    clearTimeout(this.pending);
    this.pending = null;
    const settings = { period_ms: Math.round($('period').valueAsNumber * 1000), key: $('key').value, dialect: $('dialect').value };
    for (const [id, name] of Object.entries(NUMBERS)) settings[name] = $(id).valueAsNumber;
    const known = this.wanted ?? this.settings;
    if (known && same(settings, known)) return this.problem(null);
    this.shared = true;
    return this.do({ do: 'set', settings });
  }

  async do(action) {
    for (const [name, value] of Object.entries(action.settings ?? action)) {
      if (Number.isNaN(value)) return this.problem({ field: name === 'rate' && action.do === 'stream' ? 'stream' : name, detail: 'Enter a number.' });
      if (typeof value === 'number' && !Number.isInteger(value) && action.do !== 'stream') return this.problem({ field: name, detail: 'Enter a whole number.' });
    }
    this.wanted = action.settings ?? (action.scenario ? null : this.wanted);
    const problem = await act(action);
    if (problem && this.wanted === action.settings) this.wanted = null;
    this.problem(problem);
    if (!problem) this.share();
  }

  problem(problem) {
    for (const id of Object.values(FIELDS)) $(id).removeAttribute('aria-invalid');
    $('problem').textContent = problem?.detail ?? '';
    if (problem?.field && FIELDS[problem.field]) $(FIELDS[problem.field]).setAttribute('aria-invalid', 'true');
  }

  // setState shows the state of the server, except for fields that were edited since.
  setState({ settings, playing, result }) {
    this.settings = settings;
    this.playing = playing;
    if (this.wanted && same(settings, this.wanted)) this.wanted = null;
    const show = (id, value) => {
      if (!this.wanted && !this.pending && document.activeElement !== $(id)) $(id).value = value;
    };
    for (const [id, name] of Object.entries(NUMBERS)) show(id, settings[name]);
    show('period', settings.period_ms / 1000);
    show('key', settings.key);
    show('dialect', settings.dialect);
    document.documentElement.dataset.dialect = settings.dialect;
    document.documentElement.dataset.playing = playing;
    for (const pill of this.pills) pill.setAttribute('aria-pressed', String(pill.dataset.scenario === playing));
    $('stream').setAttribute('aria-pressed', String(playing === 'stream'));
    this.share();
    this.showResult(result);
    if (playing) this.explain(playing === 'stream' ? 'none' : playing);
  }

  // explain shows the text of a scenario and marks its panels.
  explain(scenario) {
    for (const p of document.querySelectorAll('.watch [id^=watch-]')) p.hidden = p.id !== `watch-${scenario}`;
    const look = document.querySelector(`[data-scenario=${scenario}]`)?.dataset.look.split(' ') ?? [];
    for (const panel of document.querySelectorAll('.panel')) panel.classList.toggle('look', look.includes(panel.dataset.algorithm));
  }

  // showResult shows what the server found after a scenario, in place of the text of the scenario.
  showResult(result) {
    const [headline, details] = (result ?? '').split('\n');
    $('headline').textContent = headline;
    $('details').textContent = details ?? '';
    document.querySelector('.watch').classList.toggle('done', Boolean(headline));
  }

  enable(on) {
    for (const button of document.querySelectorAll('.actions button, .pills button')) button.disabled = !on;
    $('stop').disabled = !on || !this.playing;
  }
}
