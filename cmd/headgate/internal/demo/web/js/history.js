// The history of one gate from the server, as long as the chart.

const SLACK = 2e6; // µs stored beyond the span of the chart
const FRAME = 60e3; // µs between two frames during changes
const MOST = 4000; // maximum entries

export class History {
  constructor() {
    this.levels = []; // by state: a list of { t, level }
    this.marks = []; // [t, allowed, denied, undecided]
    this.outs = []; // µs at which delayed requests may proceed
    this.bins = new Map();
    this.width = 0; // of a bin, in µs
  }

  add(t, gate) {
    gate.levels.forEach((level, i) => this.addLevel(i, t, level));
    for (const mark of gate.marks ?? []) {
      this.marks.push(mark);
      this.bin(mark);
    }
    this.outs.push(...(gate.outs ?? []));
  }

  // addLevel stores only changes of a level: between two equal levels the line is straight.
  addLevel(i, t, level) {
    const points = (this.levels[i] ??= []);
    const n = points.length;
    const same = (p) => p.level.remaining === level.remaining && p.level.limit === level.limit && p.level.error === level.error;
    if (n > 1 && same(points[n - 1]) && same(points[n - 2])) {
      points[n - 1].t = t;
      return;
    }
    // The server sends no frames without changes: the level was constant until the frame before this one.
    if (n > 0 && t - points[n - 1].t > FRAME) points.push({ t: t - FRAME, level: points[n - 1].level });
    points.push({ t, level });
  }

  bin([t, allowed, denied, undecided]) {
    if (!this.width) return;
    const at = Math.floor(t / this.width);
    const bin = this.bins.get(at) ?? [0, 0, 0];
    bin[0] += allowed;
    bin[1] += denied;
    bin[2] += undecided;
    this.bins.set(at, bin);
  }

  // setWidth moves the marks into bins of another width.
  setWidth(width) {
    if (width === this.width) return;
    this.width = width;
    this.bins.clear();
    for (const mark of this.marks) this.bin(mark);
  }

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
    for (const at of this.bins.keys()) if ((at + 1) * this.width < old) this.bins.delete(at);
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
