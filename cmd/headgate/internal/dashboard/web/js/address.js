// The filters of the page in the fragment of its address, so that a view can be bookmarked and shared. A browser does not
// send the fragment, so the keys in it reach no log.

const DEFAULTS = {
  span: 'live', policy: '', filter: '', sort: 'rate', order: 'down', all: '', keys: 'denied', key: '', 'key-policy': '', config: 'changes',
};

export class Address extends EventTarget {
  constructor() {
    super();
    this.values = this.#read();
    addEventListener('hashchange', () => {
      this.values = this.#read();
      this.dispatchEvent(new Event('change'));
    });
  }

  get(name) { return this.values[name]; }

  // set changes some of the values and notifies the listeners. It adds no entry to the history of the browser.
  set(values) {
    if (Object.entries(values).every(([name, value]) => this.values[name] === value)) return;
    Object.assign(this.values, values);
    const changed = Object.entries(this.values).filter(([name, value]) => value !== DEFAULTS[name]);
    const text = new URLSearchParams(changed).toString();
    history.replaceState(null, '', text ? `#${text}` : location.pathname);
    this.dispatchEvent(new Event('change'));
  }

  #read() {
    const given = new URLSearchParams(location.hash.slice(1));
    return Object.fromEntries(Object.entries(DEFAULTS).map(([name, value]) => [name, given.get(name) ?? value]));
  }
}
