// What is on the screen, to be taken away: the texts come from the server.

const KINDS = ['go', 'yaml', 'curl'];

export class Code {
  constructor(root) {
    this.root = root;
    this.select = root.querySelector('select');
    this.status = root.querySelector('#copied');
    this.texts = {};
    this.select.addEventListener('change', () => this.show());
    for (const button of root.querySelectorAll('[data-copy]')) button.addEventListener('click', () => this.copy(button));
  }

  set(texts) {
    this.texts = texts;
    this.show();
  }

  // choose shows an algorithm's code and goes there.
  choose(algorithm) {
    this.select.value = algorithm;
    this.show();
    this.root.scrollIntoView({ block: 'start' });
    this.root.focus({ preventScroll: true });
  }

  show() {
    const texts = this.texts[this.select.value];
    if (!texts) return;
    for (const kind of KINDS) {
      const pre = this.root.querySelector(`#code-${kind}`);
      if (pre.textContent !== texts[kind]) pre.textContent = texts[kind];
    }
  }

  async copy(button) {
    const pre = this.root.querySelector(`#code-${button.dataset.copy}`);
    const done = await write(pre);
    const label = button.firstChild;
    label.textContent = done ? 'Copied' : 'Selected';
    this.status.textContent = done ? `${pre.getAttribute('aria-label')} copied` : 'selected: copy it with the keyboard';
    clearTimeout(button.timer); // of an earlier press
    button.timer = setTimeout(() => {
      label.textContent = 'Copy';
      this.status.textContent = '';
    }, 1600);
  }
}

// write copies a text; where scripts may not, it is selected for the person to copy.
async function write(pre) {
  try {
    await navigator.clipboard.writeText(pre.textContent);
    return true;
  } catch {
    getSelection().selectAllChildren(pre);
    return false;
  }
}
