// Scalings under way, those that ended, and what was not done and why.

import { byId, h, keyed, say, set, show } from './dom.js';
import { about, rows } from './live.js';
import { ago, duration } from './words.js';

const PHASES = ['accepted', 'validating', 'recording', 'updating', 'confirming'];
const LISTED_MAX = 50;

let chosen = null;
let onChoose = () => {};

export function startScalings(choose) {
  onChoose = choose;
}

export function markScaling(key) {
  chosen = key;
  drawPast();
}

export function drawActions() {
  const open = rows('actions').filter((row) => !row.outcome).sort((a, b) => a.began - b.began);
  show(byId('no-actions'), !open.length);
  keyed(byId('action-list'), open, (row) => row.action_id, makeAction, updateAction);
}

function makeAction(row) {
  const parts = {
    pill: h('span', { class: 'pill', 'data-level': 'busy' }),
    since: h('span', { class: 'muted' }),
    message: h('span', { class: 'said muted' }),
    steps: PHASES.map((phase) => h('li', {}, phase)),
  };
  const what = h(
    'div', { class: 'what' },
    h('b', {}, row.workload), h('span', { class: 'muted' }, `on ${row.node}`), h('span', {}, row.target_text),
    parts.pill, parts.since,
  );
  const track = h('ol', { class: 'track', 'aria-label': 'phases' }, ...parts.steps);
  return { ...parts, element: h('li', {}, what, track, parts.message) };
}

function updateAction(made, row) {
  const waiting = row.waiting || row.phase === 'waiting';
  set(made.pill, 'data-level', waiting ? 'warn' : 'busy');
  say(made.pill, `${waiting ? 'waiting' : row.phase}${row.dry_run ? ', dry run' : ''}`);
  set(made.since, 'data-since', row.since);
  say(made.since, ago(row.since));
  say(made.message, [row.reason, row.message].filter(Boolean).join(' '));
  const at = PHASES.indexOf(row.phase === 'waiting' ? 'validating' : row.phase);
  made.steps.forEach((step, number) => {
    set(step, 'data-done', number < at);
    set(step, 'aria-current', number === at ? 'step' : null);
  });
}

/** Time lines, the latest first; the ends of degradations are no scalings. */
export const past = () =>
  rows('timelines')
    .filter((row) => row.cause !== 'RECOVERED')
    .sort((a, b) => b.began - a.began)
    .slice(0, LISTED_MAX);

export function drawPast() {
  const lines = past();
  show(byId('no-past'), !lines.length);
  keyed(byId('past-list'), lines, (row) => row.key, makePast, updatePast);
}

function makePast(row) {
  const parts = {
    title: h('b'), pill: h('span', { class: 'pill' }), sub: h('span', { class: 'sub' }),
    since: h('span', { 'data-since': row.began, 'data-suffix': ' ago' }), took: h('span'),
  };
  const button = h(
    'button', { type: 'button', onclick: () => onChoose(row.key) },
    parts.title, h('span', { class: 'right' }, parts.pill),
    parts.sub, h('span', { class: 'right sub' }, parts.took, parts.since),
  );
  return { ...parts, button, element: h('li', {}, button) };
}

const CAUSES = { PERF: 'by its performance', CLI: 'by hand', EXTERNAL: 'by request', RECONCILE: 'to restore what is desired',
  RESTORE: 'back after recovery' };

function updatePast(made, row) {
  set(made.button, 'data-level', row.level);
  set(made.button, 'aria-pressed', row.key === chosen);
  say(made.title, row.workload);
  say(made.pill, row.outcome ?? 'under way');
  const target = row.target_text ?? (row.reason ? about().meaning[row.reason] : '') ?? '';
  say(made.sub, [row.dry_run ? 'dry run' : '', target, CAUSES[row.cause] ?? row.cause].filter(Boolean).join(' · '));
  say(made.took, row.took_ms === null ? '' : `${duration(row.took_ms)} · `);
  say(made.since, `${ago(row.began)} ago`);
}

export function drawRefusals() {
  const groups = new Map();
  for (const row of rows('timelines').sort((a, b) => b.began - a.began)) {
    if (!row.reason || row.cause === 'RECOVERED' || row.outcome === 'COMPLETED') continue;
    const key = `${row.node}/${row.workload}|${row.reason}|${row.message}|${row.dry_run}`;
    const group = groups.get(key);
    if (group) group.times += 1;
    else groups.set(key, { ...row, group: key, times: 1 });
  }
  const refused = [...groups.values()];
  show(byId('no-refusals'), !refused.length);
  keyed(byId('refusal-list'), refused, (row) => row.group, makeRefusal, updateRefusal);
}

function makeRefusal(row) {
  const parts = { times: h('span'), since: h('span', { 'data-since': row.began, 'data-suffix': ' ago' }) };
  const what = h(
    'div', { class: 'what' },
    h('b', {}, row.workload), `on ${row.node}`, h('span', { class: 'pill' }, `${row.outcome} ${row.reason}`),
    row.dry_run ? h('span', { class: 'pill', 'data-level': 'quiet' }, 'dry run') : null,
    h('span', { class: 'muted' }, parts.times, parts.since),
  );
  const meaning = h('p', { class: 'meaning' }, about().meaning[row.reason] ?? '');
  const numbers = h('p', { class: 'numbers' }, row.message);
  return { ...parts, element: h('li', { 'data-level': row.level }, what, meaning, numbers) };
}

function updateRefusal(made, row) {
  say(made.times, row.times > 1 ? `${row.times} times, last ` : '');
  set(made.since, 'data-since', row.began);
  say(made.since, `${ago(row.began)} ago`);
}
