// Repeats requests, each at its own interval and never twice at a time. A hidden tab polls nothing.

const RETRY = 2000; // ms after a failure

export class Poller {
  // tasks are { run, every }: an asynchronous function, and ms.
  // onRound is called after each response, with the problem of the request that failed first, or null.
  constructor(tasks, onRound) {
    this.tasks = tasks.map((task) => ({ ...task, due: 0, running: false, problem: null }));
    this.onRound = onRound;
    this.paused = false;
    this.started = false;
    this.round = 0; // responses to requests of an earlier round are not reported
    document.addEventListener('visibilitychange', () => this.now());
    setInterval(() => this.#tick(), 100);
  }

  start() {
    this.started = true;
    for (const task of this.tasks) task.problem = null;
    this.now();
  }

  stop() {
    this.started = false;
    this.round++;
  }

  pause(on) {
    this.paused = on;
    if (!on) this.now();
  }

  // now repeats every request that is not in flight, even while the page is paused.
  now() {
    for (const task of this.tasks) {
      task.due = 0;
      if (this.paused && this.started) this.#run(task);
    }
    this.#tick();
  }

  #tick() {
    if (!this.started || this.paused || document.hidden) return;
    const now = performance.now();
    for (const task of this.tasks) if (task.due <= now) this.#run(task);
  }

  async #run(task) {
    if (task.running) return;
    task.running = true;
    task.due = performance.now() + task.every;
    const { round } = this;
    let problem = null;
    try {
      await task.run();
    } catch (error) {
      problem = error;
      task.due = performance.now() + RETRY;
    }
    task.running = false;
    if (round !== this.round || !this.started) return;
    task.problem = problem;
    this.onRound(problem?.status === 401 ? problem : this.tasks.find((other) => other.problem)?.problem ?? null);
  }
}
