// The table of workloads: desired, in force, use, state and age; filtered, sorted, one of them chosen.

import { byId, h, keyed, say, set, show } from './dom.js';
import { about, rows, sections } from './live.js';
import { ago, amount, percent } from './words.js';

const SHOWN_MAX = 200;
const HIGH_PERCENT = 80;
const RANK = { bad: 0, warn: 1, busy: 2, good: 3, quiet: 4 };

let chosen = null;
let onChoose = () => {};

export const keyOf = (row) => `${row.node}/${row.workload}`;

/** `choose(key)` is called when somebody picks a workload. */
export function startWorkloads(choose) {
  onChoose = choose;
  byId('filter').addEventListener('input', drawWorkloads);
  byId('sort').addEventListener('change', drawWorkloads);
}

export function mark(key) {
  chosen = key;
  drawWorkloads();
}

export function drawWorkloads() {
  const words = byId('filter').value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = rows('workloads').filter((row) => {
    const text = `${row.workload} ${row.node} ${row.state} ${row.degraded ? 'degraded' : ''}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
  found.sort(order(byId('sort').value));
  keyed(byId('workload-list'), found.slice(0, SHOWN_MAX), keyOf, make, update);
  tellMissing(found.length, words.length > 0);
}

function tellMissing(number, filtered) {
  const note = byId('no-workloads');
  const all = about().workloads ?? 0;
  let text = '';
  if (!number) text = filtered ? 'no workload matches the filter' : 'no workload is known';
  else if (number > SHOWN_MAX) text = `the first ${SHOWN_MAX} of ${number}; the filter finds the others`;
  else if (all > Object.keys(sections.workloads).length) text = `of ${all} workloads in all`;
  say(note, text);
  show(note, text !== '');
}

function order(by) {
  const byName = (a, b) => a.workload.localeCompare(b.workload) || a.node.localeCompare(b.node);
  const need = (row) => Math.min(RANK[row.level] ?? 4, row.degraded ? 1 : 4);
  if (by === 'use') return (a, b) => highest(b) - highest(a) || byName(a, b);
  if (by === 'since') return (a, b) => b.since - a.since || byName(a, b);
  if (by === 'need') return (a, b) => need(a) - need(b) || byName(a, b);
  return byName;
}

const share = (row, resource) => percent(row.use?.[resource] ?? 0, row.actual?.[resource] ?? 0);
const highest = (row) => Math.max(share(row, 'cpu'), share(row, 'memory'));

function make(row) {
  const key = keyOf(row);
  const parts = {
    pill: h('span', { class: 'pill' }),
    degraded: h('span', { class: 'pill', 'data-level': 'warn' }, 'degraded'),
    why: h('span', { class: 'why' }),
    desired: h('span', { class: 'limits' }),
    actual: h('span', { class: 'limits' }),
    cpu: meter('cpu'),
    memory: meter('memory'),
    since: h('span', { 'data-since': '' }),
    button: h('button', { type: 'button', class: 'plain', onclick: () => onChoose(key) }, row.workload),
  };
  const cell = (label, ...children) => h('td', { role: 'cell', 'data-label': label }, h('div', {}, ...children));
  const element = h(
    'tr', { role: 'row' },
    h('td', { role: 'cell', 'data-label': 'Workload' }, parts.button, h('span', { class: 'sub' }, `on ${row.node}`)),
    cell('State', parts.pill, ' ', parts.degraded, parts.why),
    cell('Desired', parts.desired),
    cell('In force', parts.actual),
    cell('Use', parts.cpu.element, parts.memory.element),
    cell('Since', parts.since),
  );
  return { ...parts, element };
}

function meter(resource) {
  const text = h('span');
  const fill = h('span');
  const bar = h('span', { class: 'meter', 'aria-hidden': 'true' }, fill);
  return { text, fill, bar, resource, element: h('div', { class: 'use' }, text, bar) };
}

function update(made, row) {
  set(made.element, 'data-level', row.level);
  set(made.element, 'data-chosen', keyOf(row) === chosen ? 'true' : null);
  set(made.button, 'aria-pressed', keyOf(row) === chosen ? 'true' : 'false');
  set(made.pill, 'data-level', row.level);
  say(made.pill, row.state);
  show(made.degraded, row.degraded);
  say(made.why, whyOf(row));
  show(made.why, whyOf(row) !== '');
  say(made.desired, lines(row.desired_text));
  say(made.actual, lines(row.actual_text));
  for (const resource of ['cpu', 'memory']) fillMeter(made[resource], row);
  set(made.since, 'data-since', row.since);
  say(made.since, ago(row.since));
}

function fillMeter(made, row) {
  const { resource } = made;
  const used = row.use?.[resource];
  const limit = row.actual?.[resource];
  const part = share(row, resource);
  say(made.text, used === undefined ? '–' : amount(resource, used) + (limit ? ` of ${amount(resource, limit)}` : ''));
  made.fill.style.width = `${part}%`;
  set(made.bar, 'data-high', part >= HIGH_PERCENT);
  show(made.bar, Boolean(limit) && used !== undefined);
}

const lines = (text) => text.replaceAll(', ', '\n');

/** Why it is in its state, in words. */
export function whyOf(row) {
  const said = [row.reason && row.level !== 'good' ? (about().meaning[row.reason] ?? row.reason) : '', row.message ?? ''];
  if (row.paused) said.push(`automatic scaling is paused ${row.paused}`);
  return said.filter(Boolean).join(' ');
}
