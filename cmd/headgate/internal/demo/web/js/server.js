// The connection to the server: one event stream, and a POST for each action.

const REFUSED = 5000; // ms until a rejected page retries

let session = '';

// connect opens the event stream, and a new one after a disconnect; the server then has a new session.
export function connect({ onState, onFrame, onLink }) {
  const source = new EventSource('events');
  source.addEventListener('state', (event) => {
    const state = JSON.parse(event.data);
    const fresh = state.session !== session;
    session = state.session;
    document.documentElement.dataset.session = session;
    onState(state, fresh);
  });
  source.addEventListener('frame', (event) => onFrame(JSON.parse(event.data)));
  source.addEventListener('bye', () => {
    source.close();
    onLink('ended');
  });
  source.onopen = () => onLink('live');
  source.onerror = () => {
    const refused = source.readyState === EventSource.CLOSED; // by an HTTP error; browsers then do not reconnect
    onLink(refused ? 'refused' : 'lost');
    if (refused) setTimeout(connect, REFUSED, { onState, onFrame, onLink });
  };
}

// act sends one action. It resolves to a problem, or to null when the action is done.
export async function act(action) {
  try {
    const response = await fetch('act', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ session, ...action }),
    });
    if (response.status === 204) return null;
    return await response.json();
  } catch {
    return { detail: 'the server does not answer' };
  }
}
