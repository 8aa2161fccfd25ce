// Starts the page: which part is drawn when which section of the picture changed, and what is chosen.

import { drawAttention, drawComponents, drawEvents } from './attention.js';
import { follow, startChart } from './chart.js';
import { byId, h, say, set, show } from './dom.js';
import { drawForm, formFor, startForm } from './form.js';
import { about, connect, liveness, rows, sections } from './live.js';
import { drawNodes } from './nodes.js';
import { drawActions, drawPast, drawRefusals, markScaling, past, startScalings } from './scalings.js';
import { drawTimeline, showTimeline } from './timeline.js';
import { ago, amount, count } from './words.js';
import { drawWorkloads, mark, startWorkloads, whyOf } from './workloads.js';

const DRAWN_WITH = [
  [drawAttention, ['attention']],
  [drawCounts, ['about', 'nodes', 'workloads']],
  [drawNodes, ['nodes']],
  [drawWorkloads, ['workloads', 'about']],
  [drawDetail, ['workloads']],
  [drawForm, ['about', 'actions', 'requested']],
  [drawActions, ['actions']],
  [drawPast, ['timelines']],
  [drawNewest, ['timelines']],
  [drawTimeline, ['timelines']],
  [drawRefusals, ['timelines', 'about']],
  [drawEvents, ['events']],
  [drawComponents, ['components']],
];

let workload = null; // key of the chosen one
let scaling = null; // key of the chosen one; null: always the latest

function drawCounts() {
  const simulated = about().simulated ?? [];
  const parts = [count(rows('nodes').length, 'node'), count(about().workloads ?? 0, 'workload')];
  if (simulated.length) parts.push('simulated containers: no real one is changed');
  say(byId('counts'), parts.join(' · '));
}

function drawDetail() {
  if (workload === null || !sections.workloads[workload]) workload = firstChoice();
  const row = workload === null ? undefined : sections.workloads[workload];
  show(byId('detail-none'), !row);
  show(byId('detail-body'), Boolean(row));
  if (!row) return;
  mark(workload);
  say(byId('detail-title'), `One workload: ${row.workload}`);
  const use = row.use ? `uses ${amount('cpu', row.use.cpu)} CPU, ${amount('memory', row.use.memory)}` : '';
  byId('detail-facts').replaceChildren(
    h('span', { class: 'pill', 'data-level': row.level }, row.state),
    h('span', { class: 'muted' }, `on ${row.node}`),
    h('span', { class: 'muted' }, `in force ${row.actual_text}`),
    h('span', { class: 'muted' }, use),
    h('span', { class: 'why', 'data-level': row.level }, whyOf(row)),
  );
  follow(row.node, row.workload);
  formFor(row.node, row.workload);
}

/** Without a choice: one that is degraded, or measures itself, or the first. */
function firstChoice() {
  const all = rows('workloads');
  const found = all.find((row) => row.degraded) ?? all.find((row) => row.measures) ?? all[0];
  return found ? `${found.node}/${found.workload}` : null;
}

function drawNewest() {
  const known = scaling !== null && sections.timelines[scaling];
  const key = known ? scaling : (latestOf(past()));
  markScaling(key);
  showTimeline(key);
}

/** The latest that somebody or something asked for; what restores a desired state comes second. */
function latestOf(lines) {
  return (lines.find((line) => line.cause !== 'RECONCILE') ?? lines[0])?.key ?? null;
}

function choose(hash) {
  history.replaceState(null, '', hash);
}

function fromHash() {
  const wanted = new URLSearchParams(location.hash.slice(1));
  workload = wanted.get('workload') ?? workload;
  scaling = wanted.get('scaling') ?? scaling;
}

function remember() {
  const chosen = new URLSearchParams();
  if (workload !== null) chosen.set('workload', workload);
  if (scaling !== null) chosen.set('scaling', scaling);
  choose(`#${chosen}`);
}

/** On a narrow screen what was chosen lies further down: go there. */
function goTo(title) {
  byId(title).focus({ preventScroll: true });
  const { top } = byId(title).getBoundingClientRect();
  if (top < 0 || top > innerHeight * 0.7) byId(title).scrollIntoView({ block: 'start' });
}

function everySecond() {
  const [level, text] = liveness();
  set(byId('live'), 'data-level', level);
  say(byId('live'), text);
  for (const element of document.querySelectorAll('[data-since]')) {
    say(element, ago(Number(element.dataset.since)) + (element.dataset.suffix ?? ''));
  }
}

startWorkloads((key) => {
  workload = key;
  remember();
  drawDetail();
  goTo('detail-title');
});
startScalings((key) => {
  scaling = key;
  remember();
  drawNewest();
  goTo('timeline-title');
});
startChart();
startForm();
fromHash();
addEventListener('hashchange', () => {
  fromHash();
  drawDetail();
  drawNewest();
});
connect((changed) => {
  for (const [draw, names] of DRAWN_WITH) if (names.some((name) => changed.includes(name))) draw();
  everySecond();
});
setInterval(everySecond, 1000);
