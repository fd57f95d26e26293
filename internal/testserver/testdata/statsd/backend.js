// Prints the metrics of each flush as one line of JSON.
exports.init = (started, config, events) => {
  events.on('flush', (time, m) => console.log(JSON.stringify({ counters: m.counters, timers: m.timers })))
  return true
}
