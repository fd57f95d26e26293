// Draws time series as SVG. The colours are classes of the style sheet, so they follow the theme.

import { compact, minute, clock } from './words.js';

const NAMESPACE = 'http://www.w3.org/2000/svg';

export function svg(name, attributes = {}) {
  const element = document.createElementNS(NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

// nice is a round number that is not below n.
export function nice(n) {
  if (!(n > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(n));
  return [1, 1.2, 1.6, 2, 3, 4, 5, 6, 8, 10].find((k) => k * power >= n * 0.9999) * power;
}

// steps is a path with a horizontal line for each value, from x0 on.
function steps(values, x, y, begin) {
  let path = '';
  let last = null;
  values.forEach((value, i) => {
    const at = y(value).toFixed(1);
    if (at !== last) path += `${path ? 'H' : begin}${x(i).toFixed(1)}${path ? '' : ` ${at}`}${path ? `V${at}` : ''}`;
    last = at;
  });
  return `${path}H${x(values.length).toFixed(1)}`;
}

// area is a closed path between the values of two lists.
function area(top, bottom, x, y) {
  const back = [];
  let last = null;
  for (let i = bottom.length - 1; i >= 0; i--) {
    const at = y(bottom[i]).toFixed(1);
    if (last === null) back.push(`V${at}`);
    else if (at !== last) back.push(`H${x(i + 1).toFixed(1)}V${at}`);
    last = at;
  }
  return `${steps(top, x, y, 'M')}${back.join('')}H${x(0).toFixed(1)}Z`;
}

// Chart is a chart of stacked layers, or of lines. It redraws itself when its size changes.
export class Chart {
  // layers are the classes of what is drawn, from the bottom to the top.
  constructor(element, layers, { lines = false } = {}) {
    this.element = element;
    this.lines = lines;
    this.grid = element.appendChild(svg('g', { class: 'grid' }));
    this.paths = layers.map((name) => element.appendChild(svg('path', { class: `layer ${name}${lines ? ' line' : ''}` })));
    this.marks = element.appendChild(svg('g', { class: 'marks' }));
    this.cursor = element.appendChild(svg('line', { class: 'cursor', y1: '0', visibility: 'hidden' }));
    this.labels = element.appendChild(svg('g', { class: 'labels' }));
    this.data = null;
    this.visible = true;
    new ResizeObserver(() => this.draw()).observe(element);
    new IntersectionObserver(([entry]) => {
      this.visible = entry.isIntersecting;
      if (this.visible) this.draw();
    }).observe(element);
  }

  // set shows data: { from, step, layers: lists of values, marks: [{ time, name }], unit }, and draws it.
  set(data) {
    this.data = data;
    if (this.visible) this.draw();
  }

  draw() {
    const { width, height } = this.element.getBoundingClientRect();
    if (!this.data || !width) return;
    const text = parseFloat(getComputedStyle(this.element).fontSize);
    const gutter = Math.round(text * 3.6);
    const bottom = height - text * 1.5;
    const { layers, from, step } = this.data;
    const count = layers[0].length;
    const stacked = this.lines ? layers : stack(layers);
    const most = nice(Math.max(0, ...(this.lines ? layers.flat() : stacked.at(-1))));
    const x = (i) => gutter + (i / Math.max(count, 1)) * (width - gutter);
    const y = (value) => bottom - (value / most) * (bottom - text * 0.8);
    this.scale = { x, gutter, width, count, bottom };
    this.paths.forEach((path, i) => {
      const shown = count && layers[i].some((value) => value > 0);
      path.setAttribute('d', !shown ? '' : this.lines ? steps(layers[i], x, y, 'M') : area(stacked[i], stacked[i - 1] ?? layers[i].map(() => 0), x, y));
    });
    this.#drawGrid(most, y, text);
    this.#drawMarks(from, from + count * step, bottom, text);
    this.point(this.at);
  }

  #drawGrid(most, y, text) {
    const { gutter, width } = this.scale;
    const { from, step } = this.data;
    const ticks = [0, most / 2, most].map((value) => ({ at: y(value), name: compact(value) || '0' }));
    if (most <= 1) ticks.splice(1, 1);
    fill(this.grid, ticks.length, () => svg('line'), (line, i) => {
      set(line, { x1: gutter, x2: width, y1: Math.round(ticks[i].at) + 0.5, y2: Math.round(ticks[i].at) + 0.5 });
    });
    const end = from + this.scale.count * step;
    const format = end - from > 600_000 ? minute : clock;
    const many = Math.max(Math.min(Math.floor((width - gutter) / (text * 9)), 6), 1);
    const times = Array.from({ length: many }, (_, i) => i / many);
    const names = [
      ...ticks.map(({ at, name }) => ({ x: gutter - 6, y: at + text * 0.35, name, anchor: 'end' })),
      ...times.map((share, i) => ({
        x: gutter + share * (width - gutter), y: this.scale.bottom + text * 1.3, name: format(from + share * (end - from)), anchor: i ? 'middle' : 'start',
      })),
      { x: width, y: this.scale.bottom + text * 1.3, name: 'now', anchor: 'end' },
    ];
    fill(this.labels, names.length, () => svg('text'), (label, i) => {
      const { x, y, name, anchor } = names[i];
      set(label, { x, y, 'text-anchor': anchor });
      if (label.textContent !== name) label.textContent = name;
    });
  }

  #drawMarks(from, to, bottom, text) {
    const marks = (this.data.marks ?? []).filter(({ time }) => time > from && time < to);
    const { gutter, width } = this.scale;
    fill(this.marks, marks.length, () => {
      const group = svg('g');
      group.append(svg('line'), svg('title'), svg('text'));
      return group;
    }, (group, i) => {
      const [line, title, label] = group.children;
      const at = gutter + ((marks[i].time - from) / (to - from)) * (width - gutter);
      group.setAttribute('class', `mark-line ${marks[i].kind}`);
      set(line, { x1: at, x2: at, y1: 0, y2: bottom });
      set(label, { x: at + (at > width - text * 6 ? -4 : 4), y: text * 0.9, 'text-anchor': at > width - text * 6 ? 'end' : 'start' });
      if (title.textContent !== marks[i].name) title.textContent = marks[i].name;
      if (label.textContent !== marks[i].short) label.textContent = marks[i].short;
    });
  }

  // slot is the slot at a horizontal position in the element, or null.
  slot(x) {
    if (!this.scale || x < this.scale.gutter) return null;
    return Math.min(Math.floor(((x - this.scale.gutter) / (this.scale.width - this.scale.gutter)) * this.scale.count), this.scale.count - 1);
  }

  // point shows the cursor at a slot; null or undefined hides it.
  point(slot) {
    this.at = slot;
    const visible = slot != null && this.scale && slot < this.scale.count;
    this.cursor.setAttribute('visibility', visible ? 'visible' : 'hidden');
    if (!visible) return;
    const at = (this.scale.x(slot) + this.scale.x(slot + 1)) / 2;
    set(this.cursor, { x1: at, x2: at, y2: this.scale.bottom });
  }
}

// stack is the running sums of the layers.
function stack(layers) {
  const sums = [];
  for (const layer of layers) sums.push(layer.map((value, i) => value + (sums.at(-1)?.[i] ?? 0)));
  return sums;
}

// fill makes group have count children and updates each of them.
function fill(group, count, make, update) {
  while (group.children.length > count) group.lastChild.remove();
  while (group.children.length < count) group.append(make());
  for (let i = 0; i < count; i++) update(group.children[i], i);
}

function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    const text = typeof value === 'number' ? value.toFixed(1) : value;
    if (element.getAttribute(name) !== text) element.setAttribute(name, text);
  }
}

// spark draws a small chart without axes: each list of values is a line with the class at the same place, and the first is
// filled. top is the value at the upper edge, by default the largest one.
export function spark(element, lists, classes, { columns = 60, top = 0 } = {}) {
  const shortened = lists.map((values) => shorten(values, columns));
  const most = top || Math.max(1e-9, ...shortened.flat());
  setViewBox(element, columns);
  while (element.children.length <= lists.length) element.append(svg('path'));
  const draw = (path, d, name) => set(path, { d, class: name });
  shortened.forEach((values, i) => {
    const x = (k) => (k / Math.max(values.length, 1)) * columns;
    const y = (value) => 20 - Math.min(value / most, 1) * 18.5;
    const some = values.some((value) => value > 0);
    const line = some ? steps(values, x, y, 'M') : `M0 20H${columns}`;
    if (i === 0) draw(element.children[0], some ? `${line}V20H0Z` : '', `${classes[0]} filled`);
    draw(element.children[i + 1], some || i === 0 ? line : '', classes[i]);
  });
}

function setViewBox(element, columns) {
  if (element.hasAttribute('viewBox')) return;
  element.setAttribute('viewBox', `0 0 ${columns} 20`);
  element.setAttribute('preserveAspectRatio', 'none');
}

// shorten is the mean of equal parts of a list, at most so many.
export function shorten(values, columns) {
  if (values.length <= columns) return values;
  const result = [];
  for (let i = 0; i < columns; i++) {
    const part = values.slice(Math.floor((i * values.length) / columns), Math.floor(((i + 1) * values.length) / columns));
    result.push(part.reduce((sum, value) => sum + value, 0) / part.length);
  }
  return result;
}
