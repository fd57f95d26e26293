// The dialog that every change goes through: it names what changes, and asks for the rest.

import { $, el, setText, show } from './dom.js';

let current = null; // what the open dialog does

// ask opens the dialog. fields are made by field() and choice(); run sends the change and returns what to report.
export function ask({ title, text = '', fields = [], ok, danger = false, run, done }) {
  current = { run, done };
  setText($('dialog-title'), title);
  setText($('dialog-text'), text);
  show($('dialog-text'), text !== '');
  setText($('dialog-ok'), ok);
  $('dialog-ok').classList.toggle('danger', danger);
  setText($('dialog-problem'), '');
  $('dialog-fields').replaceChildren(...fields);
  $('dialog-ok').disabled = false;
  $('dialog').showModal();
  ($('dialog-fields').querySelector('input, select') ?? $('dialog-ok')).focus();
}

export function field(name, label, attributes = {}, hint = '') {
  return el('label', { 'data-of': name }, label, ' ', el('input', { name, type: 'text', autocomplete: 'off', spellcheck: 'false', ...attributes }), hint && el('small', {}, hint));
}

export function choice(name, label, options, value) {
  const select = el('select', { name }, ...options.map(([key, text]) => el('option', { value: key }, text)));
  if (value !== undefined) select.value = value;
  return el('label', { 'data-of': name }, label, ' ', select);
}

export const values = () => Object.fromEntries(new FormData($('dialog-form')));

async function submit(event) {
  event.preventDefault();
  const { run, done } = current;
  for (const input of $('dialog-fields').querySelectorAll('[aria-invalid]')) input.removeAttribute('aria-invalid');
  setText($('dialog-problem'), '');
  const missing = [...$('dialog-fields').querySelectorAll('input')].find((input) => input.checkVisibility() && !input.checkValidity());
  if (missing) return refuse(missing, `${missing.closest('label').firstChild.textContent.trim()} is required.`);
  $('dialog-ok').disabled = true;
  try {
    const report = await run(values());
    if (current.run !== run) return;
    $('dialog').close();
    announceDone(report);
    done?.();
  } catch (problem) {
    refuse($('dialog-fields').querySelector(`[name="${CSS.escape(problem.field ?? '')}"]`), problem.message);
  } finally {
    $('dialog-ok').disabled = false;
  }
}

function refuse(input, text) {
  setText($('dialog-problem'), text);
  input?.setAttribute('aria-invalid', 'true');
  input?.focus();
}

let timer;
export function announceDone(text) {
  setText($('done'), text);
  $('done').classList.add('shown');
  clearTimeout(timer);
  timer = setTimeout(() => {
    $('done').classList.remove('shown');
    setText($('done'), '');
  }, 6000);
}

export function closeDialog() { $('dialog').close(); }

$('dialog-form').addEventListener('submit', submit);
$('dialog-cancel').addEventListener('click', closeDialog);
