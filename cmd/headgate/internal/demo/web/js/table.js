// The last requests as a table: the data of the charts as text.

import { answer, whole } from './words.js';

const SHOWN = 12; // requests

export function fill(table, rows) {
  const body = table.tBodies[0];
  body.replaceChildren(...(rows.length ? rows.slice(0, SHOWN).map(line) : [nothing()]));
}

function nothing() {
  const tr = document.createElement('tr');
  const td = tr.insertCell();
  td.colSpan = 9;
  td.textContent = 'No requests yet.';
  return tr;
}

function line(row) {
  const tr = document.createElement('tr');
  const cell = (text, kind) => {
    const td = document.createElement('td');
    if (kind) {
      const mark = document.createElement('span');
      mark.className = `mark ${kind}`;
      const word = document.createElement('span');
      word.className = 'hidden';
      word.textContent = { yes: 'allowed, ', no: 'denied, ', un: 'undecided, ' }[kind];
      td.append(mark, word);
    }
    td.append(text);
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
