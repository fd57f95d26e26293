// Prints a hash of all edges from 1970 to 2100 for each zone and unit, computed with Intl.
//
// Usage: edges.js ZONE... Each line is: zone, unit, start, number of edges, SHA-256 of the
// edges in Unix seconds. Intl computes only the local time of an instant, so the first
// instant of a local time is searched.
'use strict';
const crypto = require('crypto');

const END = Date.UTC(2100, 0, 1) / 1000;
const DAY = 86400;

// clockOf returns a function from an instant to the local time, both in Unix seconds.
function clockOf(zone) {
  const format = new Intl.DateTimeFormat('en-US', {
    timeZone: zone, hourCycle: 'h23', era: 'short', year: 'numeric', month: 'numeric', day: 'numeric',
    hour: 'numeric', minute: 'numeric', second: 'numeric',
  });
  return (t) => {
    const part = {};
    for (const { type, value } of format.formatToParts(t * 1000)) part[type] = Number(value);
    return Date.UTC(part.year, part.month - 1, part.day, part.hour, part.minute, part.second) / 1000;
  };
}

// changesOf returns the instants at which the zone's difference from UTC changes, with the
// new difference.
function changesOf(zone) {
  const clock = clockOf(zone);
  const offset = (t) => clock(t) - t;
  const start = -40 * DAY;
  const changes = [[start, offset(start)]];
  for (let t = start; t < END + 40 * DAY; t += DAY) {
    let low = t;
    const last = offset(t + DAY);
    while (changes[changes.length - 1][1] !== last) {
      let high = t + DAY;
      const was = changes[changes.length - 1][1];
      while (high - low > 1) {
        const middle = Math.floor((low + high) / 2);
        if (offset(middle) === was) low = middle; else high = middle;
      }
      changes.push([high, offset(high)]);
      low = high;
    }
  }
  return changes;
}

// firstAt returns the first instant at which the local time is reached or passed.
function firstAt(changes, local) {
  for (let i = 0; ; i++) {
    const [begin, offset] = changes[i];
    const end = i + 1 < changes.length ? changes[i + 1][0] : Infinity;
    if (i + 1 < changes.length && end < local - 2 * DAY) continue;
    const at = Math.max(begin, local - offset);
    if (at < end) return at;
  }
}

function starts(unit, start) {
  const all = [];
  if (unit === 'day') {
    for (let d = -31; d < 131 * 366; d++) all.push(d * DAY + start * 60);
  } else if (unit === 'week') {
    for (let d = 4 - 35 + start; d < 131 * 366; d += 7) all.push(d * DAY);
  } else {
    const step = { month: 1, quarter: 3, year: 12 }[unit];
    for (let m = -12; m < 131 * 12; m += step) {
      const last = new Date(Date.UTC(1970, m + 1, 0)).getUTCDate();
      all.push(Date.UTC(1970, m, Math.min(start + 1, last)) / 1000);
    }
  }
  return all;
}

const CASES = [['day', 0], ['day', 360], ['week', 6], ['month', 0], ['month', 30], ['quarter', 0], ['year', 0]];

for (const zone of process.argv.slice(2)) {
  const changes = changesOf(zone);
  for (const [unit, start] of CASES) {
    const edges = new Set();
    for (const local of starts(unit, start)) {
      const t = firstAt(changes, local);
      if (t > 0 && t < END) edges.add(t);
    }
    const sorted = [...edges].sort((a, b) => a - b);
    const hash = crypto.createHash('sha256').update(sorted.map((t) => t + '\n').join('')).digest('hex');
    console.log(zone, unit, start, sorted.length, hash);
  }
}
