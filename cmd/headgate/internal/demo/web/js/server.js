// The way to the server and back: one stream of events, and posts of what was pressed.

const REFUSED = 5000; // ms until a refused page tries again

let session = '';

// connect opens the stream. It opens a new one when the old is cut; the server then has a new session.
export function connect({ onTold, onFrame, onState }) {
  const source = new EventSource('events');
  source.addEventListener('told', (event) => {
    const told = JSON.parse(event.data);
    const fresh = told.session !== session;
    session = told.session;
    document.documentElement.dataset.session = session;
    onTold(told, fresh);
  });
  source.addEventListener('frame', (event) => onFrame(JSON.parse(event.data)));
  source.addEventListener('bye', () => {
    source.close();
    onState('ended');
  });
  source.onopen = () => onState('live');
  source.onerror = () => {
    const refused = source.readyState === EventSource.CLOSED; // by an answer; browsers then give up
    onState(refused ? 'refused' : 'lost');
    if (refused) setTimeout(connect, REFUSED, { onTold, onFrame, onState });
  };
}

// act asks for one thing and resolves to a problem, or to null when it was done.
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
