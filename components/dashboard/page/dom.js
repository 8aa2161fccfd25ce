// Small hands for the document: make elements, change only what differs, keep rows by key.

/** An element with attributes (`class`, `data-…`, `aria-…`, `on…` as a function) and children. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else set(element, name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export const byId = (id) => document.getElementById(id);

/** Set an attribute; null and false remove it. */
export function set(element, name, value) {
  const text = value === null || value === undefined || value === false ? null : String(value);
  if (text === null) element.removeAttribute(name);
  else if (element.getAttribute(name) !== text) element.setAttribute(name, text);
}

/** Set the text, if it is another: so a selection or a screen reader is not disturbed. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function show(element, visible) {
  if (element.hidden === visible) element.hidden = !visible;
}

const rowsOf = new WeakMap();

/**
 * Let `parent` have one child per item, in order; children are kept by key, so focus and scroll stay.
 * `make(item)` gives `{element, …}`, `update(row, item)` fills it.
 */
export function keyed(parent, items, keyOf, make, update) {
  const known = rowsOf.get(parent) ?? new Map();
  rowsOf.set(parent, known);
  const wanted = new Set(items.map(keyOf));
  for (const [key, row] of known) {
    if (!wanted.has(key)) {
      row.element.remove();
      known.delete(key);
    }
  }
  let place = parent.firstChild;
  for (const item of items) {
    const key = keyOf(item);
    let row = known.get(key);
    if (!row) {
      row = make(item);
      known.set(key, row);
    }
    update(row, item);
    if (row.element === place) place = place.nextSibling;
    else parent.insertBefore(row.element, place);
  }
}
