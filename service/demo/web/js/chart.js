// Draws a panel's chart: what is left over time, the requests below it, and a vessel as full as the key is now.

const DOT = 6; // px from mark to mark
const RIGHT = 62; // px for the vessel
const FONT = '-apple-system, "Segoe UI", Roboto, "Helvetica Neue", Cantarell, Ubuntu, Arial, system-ui, sans-serif';

// inks are the page's colours as a canvas takes them.
export function readInks() {
  const probe = document.createElement('i');
  document.body.append(probe);
  const inks = {};
  for (const name of ['ink', 'muted', 'line', 'accent', 'denied', 'control', 'card']) {
    probe.style.color = `var(--${name})`;
    inks[name] = getComputedStyle(probe).color;
  }
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

  // binWidth is the time of a column of marks.
  binWidth(span) { return span / Math.floor(this.plot / DOT); }

  // rows is how many marks fit on top of each other, on either side of the line.
  rows(tracks) { return Math.max(Math.floor((this.bands(0, tracks).marks - 4) / 2 / DOT), 1); }

  bands(i, tracks) {
    const height = (this.height - 14) / tracks;
    const level = Math.round(height * (tracks > 1 ? 0.46 : 0.47));
    const top = 10 + i * height;
    return { top, level: level - 6, marksTop: top + level, marks: height - level - 6 };
  }

  draw({ tracks, now, span, unit, edges, windowed, inks }) {
    const c = this.context;
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
      this.drawLevels(track, band, x, now, inks);
      this.drawMarks(track.history, band, x, unit, inks);
      this.drawOuts(track.history, band, x, inks);
      if (tracks.length > 1) this.label(track.name, 3, band.top + 13, inks.muted, 11, 'left', 400, inks.card);
    });
    c.restore();
    tracks.forEach((track, i) => this.drawVessel(track, this.bands(i, tracks.length), tracks.length, inks));
    this.label(`−${Math.round(span / 1e6)} s`, 0, this.height - 3, inks.muted, 11, 'left');
    this.label('now', this.plot, this.height - 3, inks.muted, 11, 'right');
  }

  // label writes a text; with a halo it can be read over lines.
  label(text, x, y, ink, size, align, weight = 400, halo = null) {
    const c = this.context;
    c.font = `${weight} ${size}px ${FONT}`;
    c.textAlign = align;
    if (halo) {
      c.strokeStyle = halo;
      c.lineWidth = 4;
      c.lineJoin = 'round';
      c.strokeText(text, x, y);
    }
    c.fillStyle = ink;
    c.fillText(text, x, y);
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

  // drawLevels draws what is left of each state: the first as an area, another as a line alone.
  drawLevels(track, band, x, now, inks) {
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
    track.history.levels.forEach((points, i) => {
      if (!points.length || points[points.length - 1].level.error) return;
      const y = ({ remaining, limit }) => bottom - (limit ? Math.min(remaining / limit, 1) : 0) * band.level;
      const path = new Path2D();
      points.forEach((p, k) => path[k ? 'lineTo' : 'moveTo'](x(p.t), y(p.level)));
      const last = points[points.length - 1];
      path.lineTo(this.plot + 2, y(last.level));
      if (i === 0) {
        const area = new Path2D(path);
        area.lineTo(this.plot + 2, bottom);
        area.lineTo(x(points[0].t), bottom);
        c.fillStyle = inks.accent;
        c.globalAlpha = 0.13;
        c.fill(area);
        c.globalAlpha = 1;
      }
      c.strokeStyle = inks.accent;
      c.lineWidth = 1.6;
      c.lineJoin = 'round';
      c.setLineDash(i ? [4, 3] : []);
      c.stroke(path);
      c.setLineDash([]);
    });
  }

  // drawMarks stacks allowed requests above a line, denied ones below it.
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
      for (let i = 0; i < Math.min(Math.ceil(allowed / unit), most); i++) disc(dots, cx, middle - 4.5 - i * DOT, 2.4);
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

  // drawOuts ticks when requests go out that a queue has held.
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

  // drawVessel shows what is left at this moment, in parts that can be counted if they are few.
  drawVessel(track, band, tracks, inks) {
    const c = this.context;
    const points = track.history.levels[0];
    const level = points?.[points.length - 1]?.level;
    const left = this.width - 40;
    const width = 34;
    c.strokeStyle = inks.control;
    c.lineWidth = 1;
    c.beginPath();
    c.roundRect(left + 0.5, band.top + 0.5, width - 1, band.level - 1, 5);
    c.stroke();
    if (!level || level.error) {
      this.label(level?.error ? '–' : '', left + width / 2, band.top + band.level + 22, inks.muted, 16, 'center');
      return;
    }
    const inner = band.level - 6;
    const parts = level.limit <= inner / 4 ? level.limit : 0;
    c.fillStyle = inks.accent;
    c.beginPath();
    if (parts) {
      const step = inner / parts;
      for (let i = 0; i < Math.min(level.remaining, parts); i++) {
        c.roundRect(left + 3, band.top + 3 + inner - (i + 1) * step + 0.5, width - 6, step - 1, Math.min(2, step / 3));
      }
    } else if (level.remaining > 0) {
      const full = Math.max(Math.min(level.remaining / level.limit, 1) * inner, 1);
      c.roundRect(left + 3, band.top + 3 + inner - full, width - 6, full, 2);
    }
    c.fill();
    const big = tracks > 1 ? 15 : level.remaining > 9999 ? 15 : 21;
    const y = band.top + band.level + big + 5;
    this.label(level.remaining.toLocaleString('en'), left + width / 2, y, inks.ink, big, 'center', 650);
    this.label(`of ${level.limit.toLocaleString('en')}`, left + width / 2, y + 15, inks.muted, 11, 'center');
  }
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
