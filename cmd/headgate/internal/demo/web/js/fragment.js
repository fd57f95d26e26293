// The settings in the fragment of the page's address, so that they can be bookmarked and shared.

const NUMBERS = ['rate', 'period_ms', 'burst', 'queue', 'cost'];

// read returns what the address asks for: settings, the number of requests in a burst, and a scenario. null: nothing.
export function read() {
  const values = new URLSearchParams(location.hash.slice(1));
  if (![...values.keys()].length) return null;
  const settings = {};
  for (const name of NUMBERS) {
    const value = Number.parseInt(values.get(name), 10);
    if (!Number.isNaN(value)) settings[name] = value;
  }
  return { settings, n: Number.parseInt(values.get('n'), 10) || null, play: values.get('play') };
}

// write replaces the fragment without a new entry in the history of the browser.
export function write(settings, n, play) {
  const values = new URLSearchParams();
  if (play) values.set('play', play);
  else for (const name of NUMBERS) values.set(name, settings[name]);
  if (!play && n) values.set('n', n);
  const hash = `#${values}`;
  if (hash !== location.hash) history.replaceState(null, '', hash);
}
