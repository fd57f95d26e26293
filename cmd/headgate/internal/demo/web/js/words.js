// Formats numbers for people. Every number comes from the server; this file adds units.

export function time(us) {
  if (us === 0) return '0';
  if (us < 1000) return `${us} µs`;
  if (us <= 999e3) return `${Math.ceil(us / 1000)} ms`;
  if (us < 60e6) return `${(Math.ceil(us / 1e4) / 100).toFixed(2)} s`;
  const seconds = Math.ceil(us / 1e6);
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m ${seconds % 60}s`;
  const minutes = Math.ceil(seconds / 60);
  return `${Math.floor(minutes / 60)}h ${minutes % 60}m`;
}

export const whole = (n) => n.toLocaleString('en');

// answer describes one decision in a few words.
export function answer(a) {
  if (!a) return { text: '–', kind: '' };
  if (a.error) return { text: a.error, kind: 'un' };
  if (a.never) return { text: 'never: cost above limit', kind: 'no' };
  if (!a.allowed) return { text: `retry in ${time(a.retry_after_us)}`, kind: 'no' };
  const delay = a.delay_us > 0 ? `, delay ${time(a.delay_us)}` : '';
  return { text: `${whole(a.remaining)} left${delay}`, kind: 'yes' };
}
