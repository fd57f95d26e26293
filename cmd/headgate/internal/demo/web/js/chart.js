// Draws a panel's chart: the remaining units over time, the requests below, and a gauge of the current level.

import { whole } from './words.js';

const DOT = 5.4; // px between marks
const BEAT = 1.5e6; // µs without a frame after which the level is unknown
const RIGHT = 62; // px for the gauge

// inks are the colours of the page for a canvas.
export function readInks() {
  const probe = document.createElement('i');
  document.body.append(probe);
  const inks = {};
  for (const name of ['ink', 'muted', 'line', 'accent', 'denied', 'control', 'card']) {
    probe.style.color = `var(--${name})`;
    inks[name] = getComputedStyle(probe).color;
  }
  inks.font = getComputedStyle(document.body).fontFamily;
  probe.remove();
  return inks;
}

export class Chart {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext('2d');
    this.width = this.height = 0;
    new ResizeObserver(() => this.resize()).observe(canvas);
    this.resize();
  }

  resize() {
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    const { width, height } = this.canvas.getBoundingClientRect();
    if (width === 0 || (width === this.width && height === this.height && ratio === this.ratio)) return;
    Object.assign(this, { width, height, ratio });
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
  }

  get plot() { return Math.max(this.width - RIGHT, 60); }

  // binWidth is the time span of a column of marks.
  binWidth(span) { return span / Math.floor(this.plot / DOT); }

  // rows is how many marks fit above and below the line.
  rows(tracks) { return Math.max(Math.floor((this.bands(0, tracks).marks - 4) / 2 / DOT), 1); }

  bands(i, tracks) {
    const height = (this.height - 18) / tracks;
    const level = Math.round(height * (tracks > 1 ? 0.46 : 0.4)); // leaves room for ten marks above and below the line
    const top = 10 + i * height;
    return { top, level: level - 6, marksTop: top + level, marks: height - level - 6 };
  }

  draw({ tracks, now, lastFrame, span, unit, edges, windowed, inks }) {
    const c = this.context;
    this.font = inks.font;
    c.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    c.clearRect(0, 0, this.width, this.height);
    const x = (t) => this.plot - ((now - t) / span) * this.plot;
    c.save();
    c.beginPath();
    c.rect(0, 0, this.plot, this.height);
    c.clip();
    this.drawEdges(edges, x, windowed, inks);
    tracks.forEach((track, i) => {
      const band = this.bands(i, tracks.length);
      this.drawLevels(track, band, x, Math.min(this.plot + 2, x(lastFrame + BEAT)), inks);
      this.drawMarks(track.history, band, x, unit, inks);
      this.drawOuts(track.history, band, x, inks);
      if (tracks.length > 1) this.label(track.name, 3, band.top + 13, inks.muted, 11, 'left', 400, inks.card);
    });
    c.restore();
    tracks.forEach((track, i) => this.drawVessel(track, this.bands(i, tracks.length), tracks.length, inks));
    this.label(`−${Math.round(span / 1e6)} s`, 0, this.height - 3, inks.muted, 11, 'left');
    this.label('now', this.plot, this.height - 3, inks.muted, 11, 'right');
  }

  // label draws a text, with a halo over lines. A text that is too wide for the chart is compressed.
  label(text, x, y, ink, size, align, weight = 400, halo = null) {
    const c = this.context;
    const room = { left: this.width - x, right: x, center: 2 * Math.min(x, this.width - x) }[align];
    c.font = `${weight} ${size}px ${this.font}`;
    c.textAlign = align;
    if (halo) {
      c.strokeStyle = halo;
      c.lineWidth = 4;
      c.lineJoin = 'round';
      c.strokeText(text, x, y, room);
    }
    c.fillStyle = ink;
    c.fillText(text, x, y, room);
  }

  drawEdges(edges, x, windowed, inks) {
    const c = this.context;
    c.strokeStyle = windowed ? inks.control : inks.line;
    c.lineWidth = 1;
    c.setLineDash([3, 4]);
    c.beginPath();
    for (const t of edges) {
      const at = Math.round(x(t)) + 0.5;
      c.moveTo(at, 4);
      c.lineTo(at, this.height - 16);
    }
    c.stroke();
    c.setLineDash([]);
  }

  // drawLevels draws the level of each state up to end: the first as an area, others as lines.
  drawLevels(track, band, x, end, inks) {
    const c = this.context;
    const bottom = band.top + band.level;
    c.strokeStyle = inks.line;
    c.lineWidth = 1;
    c.beginPath();
    for (const y of [band.top, bottom]) {
      c.moveTo(0, Math.round(y) + 0.5);
      c.lineTo(this.plot, Math.round(y) + 0.5);
    }
    c.stroke();
    const y = ({ remaining, limit }) => bottom - (limit ? Math.min(remaining / limit, 1) : 0) * band.level;
    track.history.levels.forEach((points, i) => {
      for (const stretch of known(points)) {
        const corners = stretch.map((p) => [x(p.t), y(p.level)]);
        if (stretch.at(-1) === points.at(-1)) corners.push([end, corners.at(-1)[1]]);
        this.drawStretch(corners, i === 0 ? bottom : null, inks);
      }
    });
    const error = track.history.levels[0]?.at(-1)?.level.error;
    if (error) this.label(error, this.plot - 4, bottom - 8, inks.muted, 11, 'right', 400, inks.card);
  }

  // drawStretch draws a line and the area down to bottom; without bottom, a dashed line.
  drawStretch(corners, bottom, inks) {
    const c = this.context;
    const path = new Path2D();
    corners.forEach(([x, y], k) => path[k ? 'lineTo' : 'moveTo'](x, y));
    if (bottom !== null) {
      const area = new Path2D(path);
      area.lineTo(corners.at(-1)[0], bottom);
      area.lineTo(corners[0][0], bottom);
      c.fillStyle = inks.accent;
      c.globalAlpha = 0.13;
      c.fill(area);
      c.globalAlpha = 1;
    }
    c.strokeStyle = inks.accent;
    c.lineWidth = 1.6;
    c.lineJoin = 'round';
    c.setLineDash(bottom === null ? [4, 3] : []);
    c.stroke(path);
    c.setLineDash([]);
  }

  // drawMarks stacks allowed requests above a line and denied ones below it.
  drawMarks(history, band, x, unit, inks) {
    const c = this.context;
    const middle = Math.round(band.marksTop + band.marks / 2) + 0.5;
    const most = Math.max(Math.floor((band.marks - 4) / 2 / DOT), 1);
    c.strokeStyle = inks.line;
    c.lineWidth = 1;
    c.beginPath();
    c.moveTo(0, middle);
    c.lineTo(this.plot, middle);
    c.stroke();
    const dots = new Path2D();
    const crosses = new Path2D();
    const rings = new Path2D();
    for (const [at, [allowed, denied, undecided]] of history.bins) {
      const cx = x((at + 0.5) * history.width);
      if (cx < -DOT) continue;
      for (let i = 0; i < Math.min(Math.ceil(allowed / unit), most); i++) disc(dots, cx, middle - 4.5 - i * DOT, 2.3);
      const below = Math.min(Math.ceil(denied / unit), most);
      for (let i = 0; i < below; i++) cross(crosses, cx, middle + 4.5 + i * DOT, 2);
      for (let i = 0; i < Math.min(Math.ceil(undecided / unit), most - below); i++) disc(rings, cx, middle + 4.5 + (below + i) * DOT, 2);
    }
    c.fillStyle = inks.accent;
    c.fill(dots);
    c.strokeStyle = inks.denied;
    c.lineWidth = 1.5;
    c.stroke(crosses);
    c.strokeStyle = inks.control;
    c.stroke(rings);
  }

  // drawOuts draws a tick when a delayed request may proceed.
  drawOuts(history, band, x, inks) {
    if (!history.outs.length) return;
    const c = this.context;
    const y = band.marksTop;
    c.strokeStyle = inks.accent;
    c.lineWidth = 1.5;
    c.beginPath();
    for (const t of history.outs) {
      c.moveTo(x(t), y);
      c.lineTo(x(t), y + 5);
    }
    c.stroke();
  }

  // drawVessel draws the gauge of the current level; two states are drawn next to each other.
  drawVessel(track, band, tracks, inks) {
    const c = this.context;
    const levels = track.history.levels.map((points) => points.at(-1)?.level);
    const left = this.width - 40;
    const width = 34;
    c.strokeStyle = inks.control;
    c.lineWidth = 1;
    c.beginPath();
    c.roundRect(left + 0.5, band.top + 0.5, width - 1, band.level - 1, 5);
    c.stroke();
    const middle = left + width / 2;
    if (!levels.length || levels.some((level) => !level || level.error)) {
      this.label(levels.length ? '–' : '', middle, band.top + band.level + 22, inks.muted, 16, 'center');
      return;
    }
    const share = (width - 4) / levels.length;
    levels.forEach((level, i) => this.drawFill(level, left + 2 + i * share + 1, share - 2, band, inks));
    const text = levels.map((level) => whole(level.remaining)).join(' + ');
    const big = tracks > 1 || text.length > 3 ? 15 : 21;
    const y = band.top + band.level + big + 5;
    this.label(text, middle, y, inks.ink, big, 'center', 650);
    this.label(`of ${whole(levels[0].limit)}`, middle, y + 15, inks.muted, 11, 'center');
  }

  // drawFill fills a part of a gauge, as separate units if there are few.
  drawFill({ remaining, limit }, left, width, band, inks) {
    const c = this.context;
    const inner = band.level - 6;
    const bottom = band.top + 3 + inner;
    c.fillStyle = inks.accent;
    c.beginPath();
    if (limit <= inner / 4) {
      const step = inner / limit;
      for (let i = 0; i < Math.min(remaining, limit); i++) {
        c.roundRect(left, bottom - (i + 1) * step + 0.5, width, step - 1, Math.min(2, step / 3));
      }
    } else if (remaining > 0) {
      const full = Math.max(Math.min(remaining / limit, 1) * inner, 1);
      c.roundRect(left, bottom - full, width, full, 2);
    }
    c.fill();
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

function disc(path, x, y, r) {
  path.moveTo(x + r, y);
  path.arc(x, y, r, 0, 2 * Math.PI);
}

function cross(path, x, y, r) {
  path.moveTo(x - r, y - r);
  path.lineTo(x + r, y + r);
  path.moveTo(x + r, y - r);
  path.lineTo(x - r, y + r);
}
