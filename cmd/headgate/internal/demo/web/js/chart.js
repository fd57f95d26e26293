// Draws a panel's chart: the remaining units over time, and the requests below.

import { drawMarks } from './marks.js';
import { whole } from './words.js';

const DOT = 5.4; // px between columns of marks
const BEAT = 1.5e6; // µs without a frame after which the level is unknown

// inks are the colours and the text size of the page for a canvas.
export function readInks() {
  const probe = document.createElement('i');
  probe.style.forcedColorAdjust = 'none';
  document.body.append(probe);
  const inks = {};
  for (const name of ['ink', 'muted', 'line', 'accent', 'denied', 'control', 'card']) {
    probe.style.color = `var(--${name})`;
    inks[name] = getComputedStyle(probe).color;
  }
  inks.font = getComputedStyle(document.body).fontFamily;
  inks.text = Math.min(parseFloat(getComputedStyle(document.documentElement).fontSize) * 0.6875, 15);
  probe.remove();
  return inks;
}

// Chart draws one canvas. A small chart has no labels.
export class Chart {
  constructor(canvas, small = false) {
    this.canvas = canvas;
    this.small = small;
    this.context = canvas.getContext('2d');
    this.width = this.height = 0;
    this.visible = false;
    this.drawn = '';
    new ResizeObserver(() => this.resize()).observe(canvas);
    new IntersectionObserver(([entry]) => this.show(entry.isIntersecting)).observe(canvas);
    this.resize();
  }

  show(visible) {
    this.visible = visible;
    this.canvas.dispatchEvent(new Event('redraw', { bubbles: true }));
  }

  resize() {
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    const { width, height } = this.canvas.getBoundingClientRect();
    if (width === 0 || (width === this.width && height === this.height && ratio === this.ratio)) return;
    Object.assign(this, { width, height, ratio, drawn: '' });
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.dispatchEvent(new Event('redraw', { bubbles: true }));
  }

  // binWidth is the time span of a column of marks: a whole share of the period, so that columns begin at window boundaries.
  binWidth(span, period) {
    const columns = Math.max(Math.floor((this.width || 240) / DOT), 12);
    return period / Math.max(Math.round((period * columns) / span), 1);
  }

  // bands returns the y coordinates of a track: the label, the level and the marks.
  bands(i, tracks, text) {
    const axis = this.small ? 0 : text + 5;
    const label = this.small ? 2 : text + 4;
    const height = (this.height - axis) / tracks;
    const top = i * height + label;
    const level = (height - label) * (tracks > 1 ? 0.36 : 0.38);
    const gap = this.small ? 3 : 6;
    return { label: top - 4, top, level, marks: top + level + gap, half: (height - label - level - gap - 3) / 2 };
  }

  // time returns the time at a horizontal position.
  time(x, view) { return view.now - (1 - x / this.width) * view.span; }

  // draw draws the chart if it is visible and differs from what it shows.
  draw(view) {
    const key = [view.now, view.cursor, view.tallest, view.edges.length, view.stopped, view.lastFrame > view.now, view.style,
      view.tracks.map(({ history }) => history.version)].join();
    if (!this.visible || this.width === 0 || key === this.drawn) return;
    this.drawn = key;
    const c = this.context;
    this.inks = view.inks;
    c.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    c.clearRect(0, 0, this.width, this.height);
    const x = (t) => this.width - ((view.now - t) / view.span) * this.width;
    this.drawEdges(view, x);
    view.tracks.forEach((track, i) => {
      const band = this.bands(i, view.tracks.length, view.inks.text);
      this.drawLevels(track, band, x, Math.min(this.width, x(view.lastFrame + BEAT)));
      drawMarks(c, track.history, { ...band, x, width: this.width, tallest: view.tallest, inks: view.inks });
      this.drawOuts(track.history, band, x);
      if (!this.small) this.drawLabels(track, band, view);
    });
    if (!this.small) this.drawAxis(view, x);
  }

  // label draws a text, with a halo over lines. A text that is too wide for its room is compressed.
  label(text, x, y, ink, align, room = this.width, weight = 400) {
    const c = this.context;
    c.font = `${weight} ${this.inks.text}px ${this.inks.font}`;
    c.textAlign = align;
    c.strokeStyle = this.inks.card;
    c.lineWidth = 4;
    c.lineJoin = 'round';
    c.strokeText(text, x, y, room);
    c.fillStyle = ink;
    c.fillText(text, x, y, room);
  }

  drawLabels(track, band, { tracks, cursor, inks, lastFrame, now }) {
    const { level, bin } = track.history.at(cursor ?? Math.max(now, lastFrame));
    const several = track.history.levels.length > 1;
    let text = level && !level.error ? `${whole(level.remaining)} of ${whole(level.limit)}` : '';
    if (several) text = track.history.levels.map((points) => whole(points.at(-1).level.remaining)).join(' + ');
    if (cursor !== null) text = `${text} left, ${whole(bin[0])} allowed, ${whole(bin[1])} denied`;
    const name = tracks.length > 1 ? `${track.name}: budget` : 'budget left';
    if (cursor === null) this.label(name, 0, band.label, inks.muted, 'left', this.width * 0.62);
    this.label(text, this.width, band.label, cursor === null ? inks.muted : inks.ink, 'right', this.width * (cursor === null ? 0.36 : 1), 600);
    if (tracks.length > 1 || band.half < inks.text + 4) return;
    const middle = band.marks + band.half;
    this.label('allowed', 0, middle - 5, inks.muted, 'left');
    this.label('denied', 0, middle + inks.text + 2, inks.muted, 'left');
  }

  // drawAxis draws the times below the chart: one for each period.
  drawAxis({ now, span, period, cursor, stopped, inks }, x) {
    const y = this.height - 3;
    const second = (us) => `−${Number((us / 1e6).toFixed(us < 1e6 ? 1 : 0))} s`;
    if (cursor !== null) {
      const c = this.context;
      const at = Math.round(x(cursor)) + 0.5;
      c.strokeStyle = inks.ink;
      c.lineWidth = 1;
      c.beginPath();
      c.moveTo(at, inks.text + 4);
      c.lineTo(at, this.height - inks.text - 5);
      c.stroke();
      const align = at < 40 ? 'left' : at > this.width - 40 ? 'right' : 'center';
      this.label(`−${((now - cursor) / 1e6).toFixed(2)} s`, at, y, inks.ink, align, 80, 600);
      return;
    }
    this.label(stopped || 'now', this.width, y, inks.muted, 'right');
    this.label(second(span), 0, y, inks.muted, 'left');
    const step = period * Math.max(Math.round(span / 3 / period), 1);
    for (let us = step; us < span - step / 2; us += step) this.label(second(us), x(now - us), y, inks.muted, 'center');
  }

  drawEdges({ edges, windowed, inks }, x) {
    const c = this.context;
    c.strokeStyle = windowed ? inks.control : inks.line;
    c.lineWidth = 1;
    c.setLineDash([3, 3]);
    c.beginPath();
    for (const t of edges) {
      const at = Math.round(x(t)) + 0.5;
      c.moveTo(at, this.small ? 0 : inks.text + 4);
      c.lineTo(at, this.height - (this.small ? 0 : inks.text + 5));
    }
    c.stroke();
    c.setLineDash([]);
  }

  // drawLevels draws the level of each state up to end: the first as an area, others as lines.
  drawLevels(track, band, x, end) {
    const c = this.context;
    const bottom = band.top + band.level;
    c.strokeStyle = this.inks.line;
    c.lineWidth = 1;
    c.beginPath();
    for (const y of [band.top, bottom]) {
      c.moveTo(0, Math.round(y) + 0.5);
      c.lineTo(this.width, Math.round(y) + 0.5);
    }
    c.stroke();
    const y = ({ remaining, limit }) => bottom - (limit ? Math.min(remaining / limit, 1) : 0) * band.level;
    track.history.levels.forEach((points, i) => {
      for (const stretch of known(points)) {
        const first = stretch[0] === points[0] ? 0 : x(stretch[0].t); // before the page was opened, the key was unused
        const corners = [[first, y(stretch[0].level)]];
        for (const p of stretch.slice(1)) corners.push([x(p.t), corners.at(-1)[1]], [x(p.t), y(p.level)]);
        const next = points[points.indexOf(stretch.at(-1)) + 1];
        corners.push([next ? x(next.t) : Math.max(end, corners.at(-1)[0]), corners.at(-1)[1]]);
        this.drawStretch(corners, i === 0 ? bottom : null);
      }
    });
    const last = track.history.levels[0]?.at(-1);
    if (last?.level.error && !this.small) this.label(last.level.error, this.width - 4, bottom - 6, this.inks.muted, 'right');
  }

  // drawStretch draws a line and the area down to bottom; without bottom, a dashed line.
  drawStretch(corners, bottom) {
    const c = this.context;
    const path = new Path2D();
    corners.forEach(([x, y], k) => path[k ? 'lineTo' : 'moveTo'](x, y));
    if (bottom !== null) {
      const area = new Path2D(path);
      area.lineTo(corners.at(-1)[0], bottom);
      area.lineTo(corners[0][0], bottom);
      c.fillStyle = this.inks.accent;
      c.globalAlpha = 0.14;
      c.fill(area);
      c.globalAlpha = 1;
    }
    c.strokeStyle = this.inks.accent;
    c.lineWidth = this.small ? 1.2 : 1.6;
    c.lineJoin = 'round';
    c.setLineDash(bottom === null ? [4, 3] : []);
    c.stroke(path);
    c.setLineDash([]);
  }

  // drawOuts draws a tick when a delayed request may proceed.
  drawOuts(history, band, x) {
    if (!history.outs.length) return;
    const c = this.context;
    const y = band.marks - 4;
    c.strokeStyle = this.inks.accent;
    c.lineWidth = 1.5;
    c.beginPath();
    for (const t of history.outs) {
      c.moveTo(x(t), y);
      c.lineTo(x(t), y + 5);
    }
    c.stroke();
  }
}

// known splits the levels into intervals in which they are known: nothing is drawn while the store was unavailable.
export function known(points) {
  const stretches = [];
  let stretch = null;
  for (const p of points) {
    if (p.level.error) stretch = null;
    else if (stretch) stretch.push(p);
    else stretches.push(stretch = [p]);
  }
  return stretches;
}
