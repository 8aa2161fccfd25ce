// The live picture: a stream of events from the server, folded into sections of rows.

import { now, setClock } from './words.js';

const QUIET_MS = 12_000; // the server says something every 5 s
const SILENT_BUS_MS = 15_000; // agents say something every second or so
const AGAIN_MS = 3_000;

export const sections = {
  about: {}, attention: {}, nodes: {}, workloads: {}, actions: {}, timelines: {}, events: {}, components: {},
  requested: {},
};

let lastMs = 0;
let heardMs = 0;
let listener = () => {};

export const rows = (section) => Object.values(sections[section]);
export const about = () => sections.about.page ?? { meaning: {}, scale_form: false, simulated: [] };

/** Connect, and call `changed(names of sections)` after each change. */
export function connect(changed) {
  listener = changed;
  open();
}

function open() {
  const source = new EventSource('/api/events');
  source.addEventListener('picture', (event) => {
    const body = JSON.parse(event.data);
    for (const name of Object.keys(sections)) sections[name] = body.put[name] ?? {};
    heard(body);
    listener(Object.keys(sections));
  });
  source.addEventListener('change', (event) => {
    const body = JSON.parse(event.data);
    const names = new Set([...Object.keys(body.put), ...Object.keys(body.gone)]);
    for (const [name, keys] of Object.entries(body.gone)) for (const key of keys) delete sections[name][key];
    for (const [name, put] of Object.entries(body.put)) Object.assign((sections[name] ??= {}), put);
    heard(body);
    listener([...names]);
  });
  source.addEventListener('error', () => {
    if (source.readyState === EventSource.CLOSED) setTimeout(open, AGAIN_MS); // refused: too many watch, perhaps
    lastMs = 0;
  });
}

function heard(body) {
  setClock(body.now);
  lastMs = Date.now();
  heardMs = body.heard;
}

/** How live the picture is: a level and words. */
export function liveness() {
  if (!lastMs) return ['bad', 'not connected, trying again'];
  const quietMs = Date.now() - lastMs;
  if (quietMs > QUIET_MS) return ['bad', `no sign of life for ${Math.floor(quietMs / 1000)} s`];
  const silentMs = now() - heardMs;
  const someone = rows('nodes').some((node) => node.agent === 'ready');
  if (someone && silentMs > SILENT_BUS_MS) {
    return ['warn', `nothing heard from the broker for ${Math.floor(silentMs / 1000)} s`];
  }
  return ['good', 'live'];
}
