"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const times = data.requests.map((_, i) => (data.start_us + i * data.width_us) / 1e6);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const probe = document.body.appendChild(document.createElement("i"));
  probe.hidden = true;
  const color = name => () => {
    probe.style.color = `var(--${name})`; // a canvas does not know variables
    return getComputedStyle(probe).color;
  };
  const number = new Intl.NumberFormat("en");
  const bars = uPlot.paths.bars({ size: [1, Infinity], align: 1, gap: 1 });
  const stepped = uPlot.paths.stepped({ align: 1 });
  const charts = [];

  const series = (label, name) => ({
    label, stroke: color(name), fill: color(name), width: 0, paths: bars, points: { show: false },
  });
  const axis = more => Object.assign({
    stroke: color("muted"), font: "12px system-ui, sans-serif",
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

  // chart adds a chart to a figure. over is called with the index under the pointer, or
  // with null.
  function chart(figure, height, options, columns, over) {
    const width = () => figure.clientWidth - 26;
    const u = new uPlot({
      width: width(), height, legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
      ...options,
      hooks: { ...options.hooks, setCursor: [u => over(u.cursor.idx ?? null)] },
    }, columns, figure);
    charts.push({ u, fit: () => u.setSize({ width: width(), height }) });
  }

  const interval = i => new Date(times[i] * 1e3).toISOString().slice(0, 16).replace("T", " ");

  function overTime(figure, height, rows, columns, over) {
    const end = times.length > 1 ? data.width_us / 1e6 : 1;
    chart(figure, height, {
      cursor: { y: false, points: { show: false }, sync: { key: "time" }, drag: { x: true, y: false } },
      tzDate: at => uPlot.tzDate(new Date(at * 1e3), "UTC"),
      scales: { x: { time: true, range: (u, min, max) => [min, max + end] }, y: { range: (u, min, max) => [0, Math.max(1, max * 1.08)] } },
      axes: [axis({ space: 64, values: clock }), axis({ size: 52, values: (u, ticks) => ticks.map(n => n % 1 ? "" : short(n)) })],
      series: [{}, ...rows],
    }, [times, ...columns], over);
  }

  function drawRequests(figure) {
    const rows = [series("requests", "requests")], columns = [data.requests], read = reader(figure);
    if (data.denied.length === 1) {
      rows.push(series("denied", "denied"));
      columns.push(data.denied[0]);
    }
    overTime(figure, 240, rows, columns, i => read(i === null ? "" :
      interval(i) + "  " + rows.map((row, n) => number.format(columns[n][i]) + " " + row.label).join(", ")));
  }

  // The legend has an element for each line, with its column of data and its style.
  function drawDenied(figure) {
    const legend = [...figure.querySelectorAll("[data-line]")], read = reader(figure);
    const rows = legend.map(entry => {
      const style = getComputedStyle(entry.querySelector("path"));
      const dash = style.strokeDasharray === "none" ? [] : style.strokeDasharray.split(",").map(parseFloat);
      return { stroke: () => getComputedStyle(entry.querySelector("path")).stroke, width: 2, dash, paths: stepped, points: { show: false } };
    });
    const columns = legend.map(entry => data.denied[entry.dataset.line]);
    overTime(figure, 280, rows, columns, i => {
      read(i === null ? "" : interval(i));
      legend.forEach((entry, n) => { entry.querySelector("output").textContent = i === null ? "" : number.format(columns[n][i]); });
    });
  }

  // reader returns a function that shows a text in the caption of a figure, in place of
  // its note.
  function reader(figure) {
    const read = document.createElement("output"), note = figure.querySelector("figcaption small");
    figure.querySelector("figcaption").append(read);
    return text => {
      read.textContent = text;
      if (note) note.hidden = text !== "";
    };
  }

  // The curve: the shares of keys and requests that each limit denies. The axis of
  // limits is logarithmic. Its labels are the limits if they are short, else the factors.
  function drawCurve(figure, { points, tags }) {
    const line = (name, dash) => ({ stroke: color(name), width: 2, dash, points: { show: true, size: 7, fill: color(name) } });
    const percent = n => (n * 100).toFixed(2) + " %";
    const at = points.map(({ factor }) => {
      const [num, den] = factor.split("/").map(Number);
      return Math.log2(num / (den || 1));
    });
    const labelled = at.flatMap((x, i) => Number.isInteger(x) ? [i] : []);
    const plain = points.every(p => p.limits.length === 1 && p.limits[0].length <= 7);
    const label = p => plain ? p.limits[0] : "×" + p.factor;
    const read = reader(figure);
    chart(figure, 280, {
      padding: [36, 8, null, null],
      scales: { x: { time: false, range: [at[0] - 0.3, at.at(-1) + 0.3] }, y: { range: (u, min, max) => [0, Math.max(0.01, max * 1.08)] } },
      axes: [
        axis({ size: 32, splits: () => labelled.map(i => at[i]), values: () => labelled.map(i => label(points[i])) }),
        axis({ size: 52, values: (u, ticks) => ticks.map(n => +(n * 100).toFixed(2) + " %") }),
      ],
      series: [{}, line("accent"), line("denied", [6, 4])],
      hooks: { draw: [u => tags.map((tags, i) => ({ tags, x: at[i] })).filter(({ tags }) => tags).forEach(({ tags, x }, row) => mark(u, x, tags, row))] },
    }, [at, points.map(p => p.keys_touched_share), points.map(p => p.denied_share)], i => {
      const p = points[i];
      read(p ? `${p.limits.join(" and ")}: ${percent(p.keys_touched_share)} of keys, ${percent(p.denied_share)} of requests` : "");
    });
  }

  // mark draws a vertical line with the tags of a limit above it. Tags of different
  // limits are in different rows.
  function mark(u, x, tags, row) {
    const { ctx, bbox } = u, left = u.valToPos(x, "x", true), text = tags.join(", ");
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = color("muted")();
    ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
    ctx.lineWidth = devicePixelRatio;
    ctx.beginPath();
    ctx.moveTo(left, bbox.top);
    ctx.lineTo(left, bbox.top + bbox.height);
    ctx.stroke();
    ctx.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
    const half = ctx.measureText(text).width / 2;
    ctx.textAlign = "center";
    ctx.fillText(text, Math.min(Math.max(left, bbox.left + half), bbox.left + bbox.width - half), bbox.top - (6 + 15 * row) * devicePixelRatio);
    ctx.restore();
  }

  const drawings = {
    "[data-chart=requests]": drawRequests,
    "[data-chart=denied]": drawDenied,
    "[data-curve]": figure => drawCurve(figure, JSON.parse(document.getElementById("curve").textContent)),
  };
  for (const [selector, draw] of Object.entries(drawings)) {
    document.querySelectorAll(selector).forEach(draw);
  }

  addEventListener("resize", () => charts.forEach(({ fit }) => fit()));
  dark.addEventListener("change", () => charts.forEach(({ u }) => u.redraw()));
})();
