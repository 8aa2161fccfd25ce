// One scaling from metric to verified: every step, when it came, and how long after the one before.

import { byId, h, keyed, say, set, show } from './dom.js';
import { about, sections } from './live.js';
import { clock, duration } from './words.js';

const SHOWN_PHASES = ['waiting', 'validating', 'recording', 'updating', 'confirming'];

let key = null;
let steps = -1; // how many the last answer had
let asking = false;

/** Show another scaling. */
export function showTimeline(wanted) {
  if (wanted === key) return;
  key = wanted;
  steps = -1;
  drawTimeline();
}

/** Ask again if the scaling went on. */
export async function drawTimeline() {
  const row = key === null ? undefined : sections.timelines[key];
  show(byId('timeline-none'), !row);
  if (!row) show(byId('timeline-body'), false);
  if (!row || asking || row.steps === steps) return;
  asking = true;
  const asked = key;
  try {
    const answer = await fetch(`/api/timeline?${new URLSearchParams({ key: asked })}`);
    if (answer.ok && asked === key) draw(await answer.json());
  } catch {
    steps = -1; // asked again with the next change
  } finally {
    asking = false;
  }
  if (asked !== key) drawTimeline();
}

function draw(line) {
  steps = line.steps.length;
  show(byId('timeline-body'), true);
  drawFacts(line);
  drawPhases(line.timings_ms);
  const distinct = line.steps.map((step, number) => ({ ...step, number }));
  keyed(byId('timeline-steps'), distinct, (step) => `${line.key} ${step.number}`, makeStep, () => {});
  const notes = [`began ${clock(line.began)}; on the right the time since the step before, as the messages were heard`];
  if (line.left_out) notes.push(`${line.left_out} steps left out`);
  say(byId('timeline-note'), notes.join(', '));
}

function drawFacts(line) {
  const change = [line.before_text, line.target_text].filter(Boolean).join(' → ');
  const took = line.took_ms === null ? 'under way' : `in ${duration(line.took_ms)}`;
  byId('timeline-facts').replaceChildren(
    h('strong', {}, line.workload),
    h('span', { class: 'muted' }, `on ${line.node}`),
    h('span', { class: 'pill', 'data-level': line.level }, `${line.outcome ?? 'under way'}${line.dry_run ? ', dry run' : ''}`),
    h('span', {}, took),
    h('span', { class: 'muted' }, change),
  );
  const meaning = line.reason ? about().meaning[line.reason] : '';
  say(byId('timeline-said'), [line.reason, meaning, line.message].filter(Boolean).join(' – '));
}

function drawPhases(timings) {
  const spent = SHOWN_PHASES.filter((phase) => timings[phase] > 0).map((phase) => [phase, timings[phase]]);
  const total = spent.reduce((sum, [, ms]) => sum + ms, 0);
  const bar = h('div', { class: 'phase-bar', 'aria-hidden': 'true' });
  for (const [phase, ms] of spent) {
    const part = h('span', { 'data-phase': phase });
    part.style.flexGrow = String(Math.max(ms / total, 0.002));
    bar.append(part);
  }
  const keys = spent.map(([phase, ms]) => h('li', { 'data-phase': phase }, `${phase} `, h('b', {}, duration(ms))));
  byId('timeline-phases').replaceChildren(...(spent.length ? [bar, h('ul', { class: 'phase-keys' }, ...keys)] : []));
}

function makeStep(step) {
  const element = h(
    'li', { 'data-level': step.level },
    h('span', { class: 'when' }, `+${duration(step.after_ms)}`),
    h('span', { class: 'dot', 'aria-hidden': 'true' }),
    h(
      'span', { class: 'body' },
      h('span', { class: 'title' }, step.title), ' ', h('span', { class: 'who' }, step.who),
      h('span', { class: 'text' }, step.text),
    ),
    h('span', { class: 'took' }, step.number ? duration(step.took_ms) : ''),
  );
  set(element, 'title', step.topic);
  return { element };
}
