// The last requests as a table: the same as the charts, as text.

import { answer, whole } from './words.js';

export function fill(table, rows) {
  const body = table.tBodies[0];
  body.replaceChildren(...rows.slice(0, 12).map(line));
}

function line(row) {
  const tr = document.createElement('tr');
  const cell = (text, kind) => {
    const td = document.createElement('td');
    td.textContent = text;
    if (kind) td.className = `answer ${kind}`;
    tr.append(td);
  };
  cell(whole(row.seq));
  cell((row.t / 1e6).toFixed(2) + (row.track ? ` ${row.track}` : ''));
  cell(whole(row.cost));
  for (const a of row.answers) {
    const { text, kind } = answer(a);
    cell(text, kind);
  }
  return tr;
}
