// Small helpers for elements. They change only what differs, so that a page that is updated every second makes no garbage
// and loses neither focus nor selection.

export const $ = (id) => document.getElementById(id);

// el makes an element with attributes and children. An attribute that is false or null is left out.
export function el(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else if (value !== false && value != null) element.setAttribute(key, value === true ? '' : value);
  }
  element.append(...children.filter((child) => child != null && child !== false));
  return element;
}

export function setText(element, text) {
  if (element.textContent !== String(text)) element.textContent = text;
}

export function setAttribute(element, name, value) {
  if (value === null || value === false) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

export function show(element, visible) {
  if (element.hidden === visible) element.hidden = !visible;
}

// list makes the children of parent follow entries: make creates an element for a new id, update fills it.
export function list(parent, entries, id, make, update) {
  const known = (parent.elements ??= new Map());
  const wanted = new Set(entries.map(id));
  for (const [name, element] of known) {
    if (wanted.has(name)) continue;
    element.remove();
    known.delete(name);
  }
  let at = parent.firstElementChild;
  for (const entry of entries) {
    const name = id(entry);
    let element = known.get(name);
    if (!element) known.set(name, element = make(entry));
    if (element === at) at = at.nextElementSibling;
    else parent.insertBefore(element, at);
    update?.(element, entry);
  }
}

// replace fills parent only if what it shows would change. key is all that the content depends on.
export function replace(parent, key, make) {
  const text = JSON.stringify(key);
  if (parent.shown === text) return;
  parent.shown = text;
  parent.replaceChildren(...[make()].flat(2).filter((child) => child != null && child !== false));
}

// press marks the button of a group whose data attribute has the value.
export function press(selector, name, value) {
  for (const button of document.querySelectorAll(selector)) setAttribute(button, 'aria-pressed', String(button.dataset[name] === value));
}

// cells makes the cells of a row. A cell is a text, an element, or [class, content…].
export function cells(...contents) {
  return contents.map((content) => (Array.isArray(content)
    ? el('td', { class: content[0] || null }, ...content.slice(1))
    : el('td', {}, content)));
}
