// The time that the charts show. It follows the server, stops without traffic, and can be paused and inspected.

const LAG = 100e3; // µs of delay, so that events arrive before they are drawn
const STEP = 50; // ms between two pictures: about a pixel
const REST = 5e6; // µs without requests after which the picture stops, at least

export class Picture {
  constructor(panels, view, onPause) {
    this.panels = panels;
    this.view = view;
    this.onPause = onPause;
    this.still = matchMedia('(prefers-reduced-motion: reduce)');
    this.offset = null;
    this.active = 0; // time of the last request
    this.playing = '';
    this.paused = false;
    this.drawn = 0;
    this.scheduled = false;
    document.addEventListener('redraw', () => this.wake());
  }

  // follow aligns the clock with the time of a frame.
  follow(t) {
    const here = performance.now() * 1000;
    this.offset = this.offset === null ? t - here : Math.max(this.offset - 20, t - here);
  }

  // touch records that requests were decided, or that the picture is to be drawn in any case.
  touch(t) {
    this.active = Math.max(this.active, t);
    this.wake();
  }

  restart() {
    this.offset = null;
    this.active = 0;
  }

  get time() { return performance.now() * 1000 + this.offset - LAG; }

  // resting reports whether nothing has happened for so long that the picture stops.
  get resting() { return !this.playing && this.time > this.active + Math.max(REST, this.view.span * 0.42); }

  // waiting reports whether reduced motion hides the picture until the scenario ends.
  get waiting() { return this.still.matches && this.playing && this.playing !== 'stream'; }

  wake() {
    if (this.scheduled) return;
    this.scheduled = true;
    requestAnimationFrame((at) => this.draw(at));
  }

  draw(at) {
    this.scheduled = false;
    if (this.offset === null) return;
    const moves = !this.paused && !this.resting && !this.waiting;
    if (moves && at - this.drawn < (this.still.matches ? 500 : STEP)) return this.wake();
    this.drawn = at;
    const { view } = this;
    if (moves || !view.now) view.now = this.time;
    view.stopped = this.paused ? 'paused' : this.resting ? 'stopped' : '';
    view.tallest = Math.max(1, ...this.panels.map((panel) => panel.tallest()));
    for (const panel of this.panels) panel.draw(view);
    const { dataset } = document.documentElement;
    if (dataset.picture !== (view.stopped || 'moving')) dataset.picture = view.stopped || 'moving';
    if (view.cursor === null) delete dataset.cursor;
    else dataset.cursor = ((view.cursor - view.now) / 1e6).toFixed(2);
    if (moves) this.wake();
  }

  pause(on) {
    this.paused = on;
    if (!on) this.view.cursor = null;
    this.onPause(on);
    this.wake();
  }

  // point shows the values at a time in all charts; null shows the newest.
  point(t) {
    if (t === this.view.cursor) return;
    this.view.cursor = t;
    this.wake();
  }

  // step moves the cursor by one column of marks.
  step(by) {
    const { view } = this;
    const width = this.panels[0].tracks[0]?.history.width;
    if (!width) return;
    if (!this.paused) this.pause(true);
    const from = view.cursor ?? view.now;
    this.point(Math.min(Math.max(from + by * width, view.now - view.span), view.now));
  }
}
