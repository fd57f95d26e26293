"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const times = data.requests.map((_, i) => (data.start_us + i * data.width_us) / 1e6);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const color = name => () => css("--" + name);
  const number = new Intl.NumberFormat("en");
  const bars = uPlot.paths.bars({ size: [1, Infinity], align: 1, gap: 1 });
  const highest = Math.max(1, ...data.denied.map(denied => denied.reduce((a, b) => Math.max(a, b), 0)));
  const charts = [];

  const series = (label, name) => ({
    label, stroke: color(name), fill: color(name), width: 0, paths: bars, points: { show: false },
  });
  const axis = more => Object.assign({
    stroke: color("soft"), font: "12px system-ui, sans-serif",
    grid: { stroke: color("line"), width: 1 }, ticks: { show: false },
  }, more);
  const short = n => n >= 1e6 ? n / 1e6 + "M" : n >= 1e4 ? n / 1e3 + "k" : number.format(n);


  // Tick distance in seconds, the text, and what is added when the year, month, day, hour, minute or second is new.
  const year = "\n{YYYY}", day = "\n{D} {MMM}", whole = "\n{D} {MMM} {YYYY}";
  const clock = [
    [365 * 86400, "{YYYY}", null, null, null, null, null, null, 1],
    [28 * 86400, "{MMM}", year, null, null, null, null, null, 1],
    [86400, "{D} {MMM}", year, null, null, null, null, null, 1],
    [60, "{HH}:{mm}", whole, null, day, null, null, null, 1],
    [1, "{HH}:{mm}:{ss}", whole, null, day, null, null, null, 1],
    [1e-3, "{ss}.{fff}", whole + " {HH}:{mm}", null, day + " {HH}:{mm}", null, "\n{HH}:{mm}", null, 1],
  ];

  function draw(figure, rows, columns, height, top) {
    const caption = figure.querySelector("figcaption"), read = document.createElement("output");
    const note = caption.querySelector("small");
    caption.append(read);
    const u = new uPlot({
      width: figure.clientWidth - 26, height,
      tzDate: at => uPlot.tzDate(new Date(at * 1e3), "UTC"),
      cursor: { y: false, points: { show: false }, sync: { key: "time" }, drag: { x: true, y: false } },
      legend: { show: false },
      scales: { x: { time: true, range: (u, min, max) => times.length > 1 ? [min, max + data.width_us / 1e6] : [times[0], times[0] + 1] }, y: { range: (u, min, max) => [0, Math.max(1, top || max * 1.08)] } },
      axes: [axis({ space: 64, values: clock }), axis({ size: 52, values: (u, ticks) => ticks.map(n => n % 1 ? "" : short(n)) })],
      series: [{}, ...rows],
      hooks: {
        setCursor: [u => {
          const i = u.cursor.idx;
          read.textContent = i == null ? "" :
            new Date(times[i] * 1e3).toISOString().slice(0, 16).replace("T", " ") + "  " +
            rows.map((row, n) => number.format(columns[n][i]) + " " + row.label).join(", ");
          if (note) note.hidden = i != null;
        }],
      },
    }, [times, ...columns], figure);
    charts.push({ u, figure, height });
  }

  for (const figure of document.querySelectorAll("[data-chart]")) {
    const which = figure.dataset.chart;
    if (which !== "requests") {
      draw(figure, [series("denied", "denied")], [data.denied[which]], 150, highest * 1.08);
    } else if (data.denied.length === 1) {
      draw(figure, [series("requests", "requests"), series("denied", "denied")], [data.requests, data.denied[0]], 300);
    } else {
      draw(figure, [series("requests", "requests")], [data.requests], 240);
    }
  }

  const fit = () => charts.forEach(({ u, figure, height }) => u.setSize({ width: figure.clientWidth - 26, height }));
  addEventListener("resize", fit);
  dark.addEventListener("change", () => charts.forEach(({ u }) => u.redraw()));
})();
