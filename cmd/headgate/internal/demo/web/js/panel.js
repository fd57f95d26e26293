// The panel of one algorithm: chart, counts, last decision.

import { Chart } from './chart.js';
import { History } from './history.js';
import { time, whole } from './words.js';

export class Panel {
  constructor(element) {
    this.element = element;
    this.algorithm = element.dataset.algorithm;
    this.title = element.querySelector('h3').textContent;
    this.windowed = 'windowed' in element.dataset;
    this.chart = new Chart(element.querySelector('canvas'));
    this.counts = [...element.querySelectorAll('.count')];
    this.facts = Object.fromEntries([...element.querySelectorAll('[data-fact]')].map((dd) => [dd.dataset.fact, dd]));
    this.fields = element.querySelector('.fields');
    this.promise = this.fields.textContent; // placeholder
    this.whose = element.querySelector('.whose');
    this.verdict = element.querySelector('.verdict b');
    this.tracks = [];
    this.lastSeq = 0;
  }

  setTracks(names) {
    if (names.length === this.tracks.length && names.every((name, i) => name === this.tracks[i].name)) return;
    this.tracks = names.map((name) => ({ name, history: new History(), totals: null }));
    this.counts.forEach((count, i) => {
      count.hidden = i >= names.length;
      count.querySelector('.name').textContent = names[i] ?? '';
    });
  }

  // clear removes the history.
  clear() {
    for (const track of this.tracks) track.history = new History();
    this.lastSeq = 0;
    for (const dd of Object.values(this.facts)) dd.textContent = '–';
    this.fields.textContent = this.promise;
    this.whose.textContent = 'last answer';
    this.showVerdict('no answer yet', true);
    delete this.element.dataset.seq;
  }

  // take applies this panel's part of a frame.
  take(t, span, gates) {
    gates.forEach((gate, i) => {
      const track = this.tracks[i];
      if (!track) return;
      track.history.setWidth(this.chart.binWidth(span));
      track.history.add(t, gate);
      track.history.forget(t - span);
      track.totals = gate;
      this.showCounts(this.counts[i], gate);
      if (gate.last && gate.last.seq > this.lastSeq) this.showAnswer(gate.last, track);
    });
  }

  showCounts(element, gate) {
    for (const kind of ['allowed', 'denied', 'undecided']) {
      const b = element.querySelector(`[data-count=${kind}]`);
      b.textContent = whole(gate[kind]);
      b.dataset.value = gate[kind];
    }
    element.querySelector('.un').hidden = gate.undecided === 0;
  }

  showAnswer(answer, track) {
    this.lastSeq = answer.seq;
    this.element.dataset.seq = answer.seq;
    const undecided = Boolean(answer.error);
    const set = (fact, text) => {
      this.facts[fact].textContent = undecided ? '–' : text;
      this.facts[fact].dataset.value = answer[fact];
    };
    set('remaining', whole(answer.remaining));
    set('retry_after_us', answer.never ? 'never' : time(answer.retry_after_us));
    set('reset_after_us', time(answer.reset_after_us));
    set('delay_us', time(answer.delay_us));
    const [status, ...lines] = answer.fields ?? [];
    this.showVerdict(status ?? '', answer.allowed);
    const whose = answer.error ?? 'last answer';
    this.whose.textContent = this.tracks.length > 1 ? `${whose}, ${track.name}` : whose;
    this.fields.textContent = lines.join('\n');
  }

  showVerdict(text, fine) {
    this.verdict.textContent = text;
    this.verdict.classList.toggle('no', !fine);
  }

  // tallest returns the highest stack of marks, and how many fit.
  tallest() {
    return {
      most: Math.max(0, ...this.tracks.map((track) => track.history.tallest())),
      rows: this.chart.rows(Math.max(this.tracks.length, 1)),
    };
  }

  draw(view) {
    this.chart.draw({ ...view, tracks: this.tracks, windowed: this.windowed });
  }
}
