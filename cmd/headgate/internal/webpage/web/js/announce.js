// Announces events to screen readers, in one sentence and not too often.

const PAUSE = 6000; // ms between two announcements

export class Announcer {
  constructor(region) {
    this.region = region;
    this.announced = '';
    this.at = -PAUSE;
  }

  // offer announces text if it is new and the previous announcement was PAUSE ago. The next frame offers again.
  offer(text) {
    const now = performance.now();
    if (text === this.announced || now - this.at < PAUSE) return;
    this.announced = text;
    this.at = now;
    this.region.textContent = text;
  }
}
