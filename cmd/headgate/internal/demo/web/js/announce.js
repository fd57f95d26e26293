// Tells screen readers what happened, in one sentence and not too often.

const PAUSE = 6000; // ms between two announcements

export class Announcer {
  constructor(region) {
    this.region = region;
    this.said = '';
    this.at = -PAUSE;
  }

  // offer says text if it is new and the last was long enough ago; the next offer comes with the next frame.
  offer(text) {
    const now = performance.now();
    if (text === this.said || now - this.at < PAUSE) return;
    this.said = text;
    this.at = now;
    this.region.textContent = text;
  }
}
