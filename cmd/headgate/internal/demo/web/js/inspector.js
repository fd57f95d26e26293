// One panel is chosen: the inspector shows its last decision, and a narrow screen shows only this panel.

export class Inspector {
  constructor(panels) {
    this.panels = panels;
    this.chosen = '';
    this.shown = '';
    for (const { algorithm, element, tabButton } of panels) {
      element.addEventListener('pointermove', (event) => this.point(event, algorithm));
      element.addEventListener('pointerleave', () => this.show(this.chosen));
      element.addEventListener('focusin', () => this.choose(algorithm));
      element.querySelector('[data-pick]').addEventListener('click', () => this.choose(algorithm));
      tabButton.addEventListener('click', () => this.choose(algorithm));
    }
    this.choose(document.querySelector('.panel.chosen').dataset.algorithm);
  }

  // choose shows an algorithm until another one is chosen.
  choose(algorithm) {
    this.chosen = algorithm;
    for (const panel of this.panels) {
      const on = panel.algorithm === algorithm;
      panel.element.classList.toggle('chosen', on);
      panel.tabButton.setAttribute('aria-pressed', String(on));
      panel.element.querySelector('[data-pick]').setAttribute('aria-pressed', String(on));
    }
    this.show(algorithm);
  }

  // point shows the algorithm under the mouse, unless the page scrolled and the mouse did not move.
  point({ pointerType, movementX, movementY }, algorithm) {
    if (pointerType === 'mouse' && (movementX || movementY)) this.show(algorithm);
  }

  show(algorithm) {
    if (algorithm === this.shown) return;
    this.shown = algorithm;
    for (const panel of this.panels) panel.last.hidden = panel.algorithm !== algorithm;
  }
}
