// Draws requests as stacked marks: allowed above a line, denied and undecided below it, all in the same scale.

const WIDE = 5.4; // px between two marks that are dots and crosses
const NARROW = 2; // px between two marks that are still separate

// form returns how marks are drawn if the tallest stack has a number of marks and a height in px.
export function form(tallest, height) {
  const step = Math.min(height / Math.max(tallest, 1), WIDE);
  if (step >= 3.8) return { kind: 'dots', step };
  return { kind: step >= NARROW ? 'blocks' : 'bars', step };
}

// drawMarks draws the bins of a history. Every request has the same height, in all charts and on both sides.
export function drawMarks(c, history, { marks, half, x, width, tallest, inks }) {
  const middle = Math.round(marks + half) + 0.5;
  const room = half - 3;
  const { kind, step } = form(tallest, room);
  c.strokeStyle = inks.line;
  c.lineWidth = 1;
  c.beginPath();
  c.moveTo(0, middle);
  c.lineTo(width, middle);
  c.stroke();
  const paths = { up: new Path2D(), down: new Path2D(), open: new Path2D() };
  for (const [at, [allowed, denied, undecided]] of history.bins) {
    const left = x(history.binStart(at));
    const right = x(history.binStart(at + 1));
    if (right < 0) continue;
    const column = { left, right, middle, step };
    if (kind === 'bars') bars(paths, column, allowed, denied, undecided);
    else stack(paths, column, kind, allowed, denied, undecided);
  }
  c.fillStyle = inks.accent;
  c.fill(paths.up);
  c.strokeStyle = c.fillStyle = inks.denied;
  c.lineWidth = 1.5;
  if (kind === 'dots') c.stroke(paths.down);
  else c.fill(paths.down);
  c.strokeStyle = inks.control;
  c.stroke(paths.open);
}

function stack({ up, down, open }, { left, right, middle, step }, kind, allowed, denied, undecided) {
  const cx = (left + right) / 2;
  const wide = Math.min(Math.max(right - left - 0.8, 2), 7);
  for (let i = 0; i < allowed; i++) {
    if (kind === 'dots') disc(up, cx, middle - 1 - (i + 0.5) * step, step * 0.43);
    else up.rect(cx - wide / 2, middle - 1 - (i + 1) * step, wide, step - 0.7);
  }
  for (let i = 0; i < denied + undecided; i++) {
    const y = middle + 1 + (i + 0.5) * step;
    if (i >= denied) disc(open, cx, y, Math.min(step * 0.36, 2));
    else if (kind === 'dots') cross(down, cx, y, step * 0.37);
    else down.rect(cx - wide / 2, y - step / 2, wide, step - 0.7);
  }
}

// bars draws heights in proportion to the numbers, and at least one px for any request.
function bars({ up, down, open }, { left, right, middle, step }, allowed, denied, undecided) {
  const wide = Math.max(right - left - 0.8, 1);
  const height = (n) => (n ? Math.max(n * step, 1) : 0);
  if (allowed) up.rect(left, middle - 0.5 - height(allowed), wide, height(allowed));
  if (denied) down.rect(left, middle + 0.5, wide, height(denied));
  if (undecided) open.rect(left, middle + 0.5 + height(denied), wide, height(undecided));
}

function disc(path, x, y, r) {
  path.moveTo(x + r, y);
  path.arc(x, y, r, 0, 2 * Math.PI);
}

function cross(path, x, y, r) {
  path.moveTo(x - r, y - r);
  path.lineTo(x + r, y + r);
  path.moveTo(x + r, y - r);
  path.lineTo(x - r, y + r);
}
