// Code examples with the current settings; the server provides the texts.

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

  // choose shows the code of an algorithm and scrolls to it.
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
    clearTimeout(button.timer); // of an earlier click
    button.timer = setTimeout(() => {
      label.textContent = 'Copy';
      this.status.textContent = '';
    }, 1600);
  }
}

// write copies a text; without permission it selects the text instead.
async function write(pre) {
  try {
    await navigator.clipboard.writeText(pre.textContent);
    return true;
  } catch {
    getSelection().selectAllChildren(pre);
    return false;
  }
}
