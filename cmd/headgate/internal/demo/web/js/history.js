// The history of one gate from the server, as long as the chart.

const SLACK = 2e6; // µs stored beyond the span of the chart
const MOST = 4000; // maximum entries

export class History {
  constructor() {
    this.levels = []; // by state: a list of { t, level }; a level applies until the next one
    this.marks = []; // [t, allowed, denied, undecided, lowest level, highest level]
    this.outs = []; // µs at which delayed requests may proceed
    this.bins = new Map();
    this.width = 0; // of a bin, in µs
    this.anchor = 0; // a time at which a bin begins
    this.version = 0; // incremented with every change
  }

  add(t, gate) {
    const { limit } = gate.levels[0];
    for (const mark of gate.marks ?? []) {
      this.marks.push(mark);
      this.bin(mark);
      this.addExtremes(mark, limit);
    }
    this.outs.push(...(gate.outs ?? []));
    if (gate.marks || gate.outs) this.version++;
    gate.levels.forEach((level, i) => this.addLevel(i, t, level));
  }

  // addExtremes adds the levels between two frames: every decision reports the remaining units.
  addExtremes([t, , , , lowest, highest], limit) {
    if (lowest < 0) return;
    this.addLevel(0, t, { remaining: highest, limit });
    this.addLevel(0, t, { remaining: lowest, limit });
  }

  // addLevel stores only changes.
  addLevel(i, t, { remaining, limit, error }) {
    const points = (this.levels[i] ??= []);
    const last = points.at(-1);
    if (last && last.level.remaining === remaining && last.level.limit === limit && last.level.error === error) return;
    points.push({ t: Math.max(t, last?.t ?? t), level: { remaining, limit, error } });
    this.version++;
  }

  bin([t, allowed, denied, undecided]) {
    if (!this.width) return;
    const at = Math.floor((t - this.anchor) / this.width);
    const bin = this.bins.get(at) ?? [0, 0, 0];
    bin[0] += allowed;
    bin[1] += denied;
    bin[2] += undecided;
    this.bins.set(at, bin);
  }

  // setGrid moves the marks into bins of another width, one of which begins at anchor.
  setGrid(width, anchor) {
    const shift = Math.abs(anchor - this.anchor) % width;
    if (width === this.width && Math.min(shift, width - shift) < 20e3) return;
    this.width = width;
    this.anchor = anchor;
    this.bins.clear();
    for (const mark of this.marks) this.bin(mark);
  }

  // at returns the level and the counts of the bin at a time.
  at(t) {
    const level = this.levels[0]?.findLast((p) => p.t <= t)?.level ?? this.levels[0]?.[0]?.level;
    const bin = this.bins.get(Math.floor((t - this.anchor) / this.width)) ?? [0, 0, 0];
    return { level, bin };
  }

  // binStart returns the time at which bin number at begins.
  binStart(at) { return this.anchor + at * this.width; }

  // forget removes entries that have left the chart.
  forget(before) {
    const old = before - SLACK;
    for (const points of this.levels) {
      const keep = points.findIndex((p) => p.t >= old);
      const drop = Math.max(keep < 0 ? points.length - 1 : keep - 1, points.length - MOST);
      if (drop > 0) points.splice(0, drop);
    }
    dropWhile(this.marks, (m) => m[0] < old);
    dropWhile(this.outs, (t) => t < old);
    for (const at of this.bins.keys()) if (this.binStart(at + 1) < old) this.bins.delete(at);
  }

  // tallest is the maximum of one kind in a bin.
  tallest() {
    let most = 0;
    for (const bin of this.bins.values()) most = Math.max(most, bin[0], bin[1], bin[2]);
    return most;
  }
}

function dropWhile(list, old) {
  const keep = list.findIndex((entry) => !old(entry));
  const drop = Math.max(keep < 0 ? list.length : keep, list.length - MOST);
  if (drop > 0) list.splice(0, drop);
}
