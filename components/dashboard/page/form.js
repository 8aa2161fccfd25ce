// The form: what would happen if, and, unless it is switched off, do it. Its result is what the bus says of the action.

import { byId, h, say, set, show } from './dom.js';
import { about, sections } from './live.js';
import { duration } from './words.js';

let workload = null; // {node, workload}
let current = null; // action id, or null
let ended = null; // its row with the outcome: the picture drops it when enough others have ended since
let problem = '';

export function startForm() {
  byId('form').addEventListener('submit', (event) => {
    event.preventDefault();
    send(event.submitter?.value !== 'scale');
  });
}

/** The form is about this workload from now on. */
export function formFor(node, name) {
  if (isAbout(node, name)) return;
  workload = { node, workload: name };
  forget();
  for (const field of ['form-cpu', 'form-memory']) byId(field).value = '';
  drawForm();
}

const isAbout = (node, name) => workload?.node === node && workload.workload === name;

function forget() {
  current = ended = null;
  problem = '';
}

async function send(dryRun) {
  const asked = workload;
  const body = {
    ...asked,
    cpu: byId('form-cpu').value,
    memory: byId('form-memory').value,
    on_shortage: byId('form-shortage').value,
    wait_s: 60,
    dry_run: dryRun,
  };
  forget();
  busy(true);
  let said;
  try {
    const answer = await fetch('/api/scale', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify(body),
    });
    said = await answer.json();
  } catch {
    said = { error: 'the server of this page cannot be reached' };
  }
  busy(false);
  if (!isAbout(asked.node, asked.workload)) return; // another one was chosen meanwhile
  current = said.action_id ?? null;
  problem = said.error ?? '';
  drawForm();
}

function busy(yes) {
  for (const button of ['what-if', 'scale']) byId(button).disabled = yes;
}

export function drawForm() {
  const open = about().scale_form;
  show(byId('scale'), open);
  say(
    byId('form-note'),
    open
      ? '“What if?” only asks: nothing is changed or reserved.'
      : '“What if?” only asks. Scaling from this page is switched off ([dashboard] scale_form).',
  );
  for (const field of ['form-cpu', 'form-memory']) set(byId(field), 'aria-invalid', problem ? 'true' : null);
  const [level, title, text] = result();
  const place = byId('form-result');
  const wanted = `${level}|${title}|${text}`;
  if (place.dataset.shown === wanted) return;
  place.dataset.shown = wanted;
  set(place, 'data-level', level);
  place.replaceChildren(...(title ? [h('strong', {}, title), ' ', text] : []));
}

function result() {
  if (problem) return ['bad', 'Not sent:', problem];
  if (!current) return ['quiet', '', ''];
  const action = sections.actions[current] ?? ended;
  if (action?.outcome) ended = action;
  const request = sections.requested[current];
  if (!action) {
    if (request?.given_up) return ['bad', 'No answer:', 'action_controller did not answer; see what needs attention.'];
    return ['busy', 'Sent,', 'waiting for an answer …'];
  }
  const kind = action.dry_run ? 'What if: ' : '';
  if (!action.outcome) return ['busy', `${kind}${action.phase}`, [action.reason, action.message].filter(Boolean).join(' ')];
  const meaning = action.reason ? about().meaning[action.reason] : '';
  const took = duration(Object.values(action.timings_ms).reduce((sum, ms) => sum + ms, 0));
  const after = action.actual_text && !action.dry_run ? `In force: ${action.actual_text}, after ${took}.` : '';
  const reason = action.reason ? `${action.outcome} (${action.reason})` : action.outcome;
  return [action.level, `${kind}${reason}`, [meaning, action.message, after].filter(Boolean).join(' ')];
}
