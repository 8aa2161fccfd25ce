// Quantities, durations and ages in words.

let offsetMs = 0;

/** What this browser's clock lacks to the server's. */
export function setClock(serverMs) {
  offsetMs = serverMs - Date.now();
}

/** The server's time, UTC epoch ms. */
export const now = () => Date.now() + offsetMs;

/** How long ago: "12 s", "5 min", "3 h", "2 d". */
export function ago(epochMs) {
  if (!epochMs) return '';
  const seconds = Math.max(0, Math.floor((now() - epochMs) / 1000));
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

/** A duration: "0.8 ms", "34 ms", "1.25 s", "2 min 5 s". */
export function duration(ms) {
  if (ms === null || ms === undefined) return '';
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60000) return `${(ms / 1000).toFixed(ms < 10000 ? 2 : 1)} s`;
  const seconds = Math.round(ms / 1000);
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

export const clock = (epochMs) => new Date(epochMs).toLocaleTimeString([], { hour12: false });

/** CPU and memory as everywhere in piriscale: 1500m, 512Mi. */
export const amount = (resource, value) =>
  value === null || value === undefined ? 'no limit' : `${value}${resource === 'cpu' ? 'm' : 'Mi'}`;

export const percent = (part, whole) => (whole > 0 ? Math.min(100, Math.max(0, (100 * part) / whole)) : 0);

/** 1 thing, 2 things. */
export const count = (number, one) => `${number} ${one}${number === 1 ? '' : 's'}`;
