// What needs attention, the components, and what happened.

import { byId, h, keyed, say, set, show } from './dom.js';
import { rows, sections } from './live.js';
import { clock } from './words.js';

const WORDS = { bad: 'problem', warn: 'notice', busy: 'soon', good: 'fine', quiet: 'note' };

export function drawAttention() {
  const { items = [], count = 0 } = sections.attention.all ?? {};
  const card = byId('needs');
  let list = card.querySelector('ul');
  let well = card.querySelector('p');
  if (!items.length) {
    list?.remove();
    well ??= card.appendChild(h('p'));
    set(well, 'class', 'all-well');
    return say(well, '✓ All is well');
  }
  well?.remove();
  list ??= card.appendChild(h('ul'));
  const shown = count > items.length ? [...items, { level: 'quiet', text: `and ${count - items.length} more` }] : items;
  return keyed(list, shown, (item) => item.text, makeNeed, () => {});
}

function makeNeed(item) {
  return {
    element: h('li', { 'data-level': item.level }, h('span', { class: 'pill' }, WORDS[item.level]), h('span', {}, ...withCode(item.text))),
  };
}

/** Text in which commands stand between backticks. */
function withCode(text) {
  return text.split('`').map((part, number) => (number % 2 ? h('code', {}, part) : part));
}

export function drawComponents() {
  keyed(
    byId('component-list'),
    rows('components'),
    (row) => `${row.component}/${row.instance}`,
    (row) => {
      const state = h('span', { class: 'pill' });
      const name = row.instance === 'main' ? row.component : `${row.component} ${row.instance}`;
      return { element: h('li', {}, h('span', {}, name), state), state };
    },
    (made, row) => {
      set(made.element, 'data-level', row.level);
      set(made.element, 'title', row.version && `version ${row.version}`);
      say(made.state, row.state);
    },
  );
}

export function drawEvents() {
  const items = [...(sections.events.latest?.items ?? [])].reverse();
  show(byId('no-events'), !items.length);
  const seen = new Map();
  const keyOf = (item) => {
    if (!seen.has(item)) seen.set(item, `${item.at} ${item.kind} ${item.node} ${item.workload} ${item.text}`);
    return seen.get(item);
  };
  const distinct = [...new Map(items.map((item) => [keyOf(item), item])).values()];
  keyed(byId('event-list'), distinct, keyOf, makeEvent, () => {});
}

function makeEvent(item) {
  const about = [item.workload, item.node].filter(Boolean).join(' on ');
  const time = h('time', { datetime: new Date(item.at).toISOString() }, clock(item.at));
  const text = h('span', { class: 'text' }, about ? h('b', {}, `${about}: `) : null, item.text);
  return { element: h('li', { 'data-level': item.level }, time, text) };
}
