// Formats numbers and times for people.

export const whole = (n) => Math.round(n).toLocaleString('en');

// compact is a number in at most five characters.
export function compact(n) {
  if (n < 1000) return whole(n);
  return n.toLocaleString('en', { notation: 'compact', maximumSignificantDigits: 3 });
}

export function perSecond(n) {
  if (n === 0) return '0';
  if (n < 0.01) return '< 0.01';
  if (n < 10) return Number(n.toFixed(2)).toString();
  return n < 100 ? Number(n.toFixed(1)).toString() : whole(n);
}

export function percent(part, all) {
  if (!all || !part) return all ? '0 %' : '–';
  const share = (100 * part) / all;
  if (share < 0.01) return '< 0.01 %';
  if (share > 99.99 && part < all) return '> 99.99 %';
  return `${Number(share.toFixed(share < 1 ? 2 : 1))} %`;
}

export function bytes(n) {
  if (n < 1024) return `${n} B`;
  const unit = Math.min(Math.floor(Math.log2(n) / 10), 4);
  return `${(n / 1024 ** unit).toFixed(1)} ${['B', 'KiB', 'MiB', 'GiB', 'TiB'][unit]}`;
}

// milliseconds of a number of µs.
export function milliseconds(us) {
  if (us < 10) return `${Number((us / 1000).toFixed(4))} ms`;
  return us < 10_000 ? `${Number((us / 1000).toPrecision(2))} ms` : `${whole(us / 1000)} ms`;
}

// duration is a rounded-up length of time: a client that waits so long does not retry too early.
export function duration(ms) {
  if (ms <= 0) return '0 s';
  if (ms < 1000) return `${Math.ceil(ms)} ms`;
  if (ms < 60_000) return `${Number((Math.ceil(ms / 100) / 10).toFixed(1))} s`;
  const minutes = Math.ceil(ms / 60_000);
  if (minutes < 60) return `${minutes} min`;
  if (minutes < 48 * 60) return minutes % 60 ? `${Math.floor(minutes / 60)} h ${minutes % 60} min` : `${minutes / 60} h`;
  return `${Math.round(minutes / 1440)} days`;
}

// ago is how long a time is past.
export function ago(time, now) {
  const seconds = Math.max(0, Math.floor((now - Date.parse(time)) / 1000));
  if (seconds < 5) return 'just now';
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 48 * 3600) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86_400)} days ago`;
}

const clockFormat = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });
const minuteFormat = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' });
const dayFormat = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit', second: '2-digit' });

export const clock = (time) => clockFormat.format(new Date(time));
export const minute = (time) => minuteFormat.format(new Date(time));

// when is a time of today as a clock, and another one with its day.
export function when(time, now = Date.now()) {
  const date = new Date(time);
  return date.toDateString() === new Date(now).toDateString() ? clock(date) : dayFormat.format(date);
}

export const counted = (n, one, many) => `${whole(n)} ${n === 1 ? one : many}`;

// limitsOf is the limits of an override as text. A blocked key has a limit of 0.
export const limitsOf = (limits) => limits.map((limit) => (/^0\b/.test(limit) || limit === 'block' ? 'blocked' : limit)).join(', ');
