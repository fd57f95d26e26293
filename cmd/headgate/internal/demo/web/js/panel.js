// The panel of one algorithm: its charts and counts, and its last decision in the inspector.

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
    this.tabButton = document.querySelector(`[data-tab=${this.algorithm}]`);
    this.small = new Chart(this.tabButton.querySelector('canvas'), true);
    this.counts = [...element.querySelectorAll('.count')];
    const last = document.querySelector(`.last[data-of=${this.algorithm}]`);
    this.last = last;
    this.facts = Object.fromEntries([...last.querySelectorAll('[data-fact]')].map((dd) => [dd.dataset.fact, dd]));
    this.fields = last.querySelector('.fields');
    this.promise = this.fields.textContent; // placeholder
    this.whose = last.querySelector('.whose');
    this.verdict = last.querySelector('.verdict b');
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
    this.whose.textContent = '';
    this.showVerdict('no requests yet', true);
    delete this.last.dataset.seq;
  }

  // take applies this panel's part of a frame.
  take(t, gates, view) {
    gates.forEach((gate, i) => {
      const track = this.tracks[i];
      if (!track) return;
      track.history.setGrid(this.chart.binWidth(view.span, view.period), view.anchor);
      track.history.add(t, gate);
      track.history.forget(Math.min(t, view.now) - view.span);
      track.totals = gate;
      this.showCounts(this.counts[i], gate, view.settings);
      if (gate.last && gate.last.seq > this.lastSeq) this.showAnswer(gate.last, track);
    });
  }

  showCounts(element, gate, settings) {
    for (const kind of ['allowed', 'denied', 'undecided']) {
      const b = element.querySelector(`[data-count=${kind}]`);
      setText(b, whole(gate[kind]));
    }
    element.querySelector('.un').hidden = gate.undecided === 0;
    if (settings) this.showPeak(element.querySelector('.peak'), gate.most, settings.rate);
  }

  // showPeak compares the most units in any period with the limit, which is in the middle of the bar.
  showPeak(element, most, rate) {
    const over = most > rate;
    setText(element.querySelector('b'), whole(most));
    const times = Number((most / rate).toFixed(1));
    setText(element.querySelector('.times'), over ? `${times > 1 ? whole(times) : 'just over 1'}× the limit` : `limit ${whole(rate)}`);
    element.classList.toggle('over', over);
    const width = `${Math.min(most / rate / 2, 1) * 100}%`;
    const bar = element.querySelector('.bar i');
    if (bar.style.inlineSize !== width) bar.style.inlineSize = width;
    this.tabButton.classList.toggle('over', over);
    setText(this.tabButton.querySelector('b'), whole(most));
  }

  showAnswer(answer, track) {
    this.lastSeq = answer.seq;
    this.last.dataset.seq = answer.seq;
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
    this.whose.textContent = [answer.error, this.tracks.length > 1 && track.name].filter(Boolean).join(', ');
    this.fields.textContent = lines.join('\n');
  }

  showVerdict(text, fine) {
    this.verdict.textContent = text;
    this.verdict.classList.toggle('no', !fine);
  }

  // tallest returns the highest stack of marks.
  tallest() { return Math.max(0, ...this.tracks.map((track) => track.history.tallest())); }

  draw(view) {
    const own = { ...view, tracks: this.tracks, windowed: this.windowed };
    this.chart.draw(own);
    this.small.draw(own);
  }
}

// setText changes a text only if it differs, because every change costs layout.
function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
