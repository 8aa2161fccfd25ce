// Latency and limit of one workload over the last minutes, in one chart; uPlot draws it.

import { byId, h, set } from './dom.js';
import { amount } from './words.js';

const POINTS_MAX = 600;
const EVERY_MS = 1000;
const HEIGHT = 240;
const NARROW = 400; // without room for the names of the axes; the legend has them
const AXIS_FONT = '12px system-ui, "DejaVu Sans", sans-serif';
const MEASURES = [['latency_ms', 'Latency', 'ms'], ['throughput', 'Throughput', '/s'], ['fps', 'Frames', '/s']];

let wanted = null; // {node, workload}
let data = null;
let plot = null;
let plotted = '';
let timer = 0;

export function startChart() {
  for (const radio of document.querySelectorAll('input[name="resource"]')) radio.addEventListener('change', redraw);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
  new ResizeObserver(() => plot?.setSize({ width: widthOf(), height: HEIGHT })).observe(byId('chart'));
  document.addEventListener('visibilitychange', () => document.hidden || ask());
}

/** Follow another workload. */
export function follow(node, workload) {
  if (wanted?.node === node && wanted.workload === workload) return;
  wanted = { node, workload };
  data = null;
  redraw();
  ask();
}

async function ask() {
  clearTimeout(timer);
  if (!wanted || document.hidden) return;
  const asked = wanted;
  try {
    const query = new URLSearchParams({ ...asked, after: data?.last ?? 0 });
    const answer = await fetch(`/api/series?${query}`);
    if (answer.ok && asked === wanted) take(await answer.json());
  } catch {
    // the server is away; the header says so, and the next try comes by itself
  }
  clearTimeout(timer);
  timer = setTimeout(ask, EVERY_MS);
}

function take(news) {
  data ??= { last: 0, measured: {}, used: {} };
  for (const part of ['measured', 'used']) {
    for (const [name, values] of Object.entries(news[part])) {
      data[part][name] = [...(data[part][name] ?? []), ...values].slice(-POINTS_MAX);
    }
    data.last = Math.max(data.last, ...news[part].at.slice(-1));
  }
  data.thresholds = news.thresholds;
  data.marks = news.marks;
  draw();
}

const resource = () => document.querySelector('input[name="resource"]:checked').value;
const widthOf = () => Math.max(200, byId('chart').clientWidth);
const lastOf = (values) => values?.findLast((value) => value !== null);

function redraw() {
  plot?.destroy();
  plot = null;
  plotted = '';
  draw();
}

function draw() {
  const measure = MEASURES.find(([name]) => data?.measured[name]?.some((value) => value !== null)) ?? MEASURES[0];
  const kind = resource();
  legend(measure, kind);
  const table = data && columns(measure[0], kind);
  if (!table || table[0].length < 2) return wait();
  const wantedPlot = `${measure[0]} ${kind} ${wanted.node}/${wanted.workload}`;
  if (plotted !== wantedPlot) {
    plot?.destroy();
    byId('chart').replaceChildren();
    plot = new window.uPlot(options(measure, kind), table, byId('chart'));
    plotted = wantedPlot;
  } else plot.setData(table);
  return undefined;
}

function wait() {
  plot?.destroy();
  plot = null;
  plotted = '';
  if (!byId('chart').querySelector('.waiting')) {
    byId('chart').replaceChildren(h('p', { class: 'waiting' }, 'waiting for measures …'));
  }
}

/** One x axis for samples that came at different times: x, measure, threshold, use, limit. */
function columns(name, kind) {
  const seconds = (times) => times.map((ms) => ms / 1000);
  const { measured, used } = data;
  const tables = [];
  if (measured.at.length) tables.push([seconds(measured.at), measured[name]]);
  else tables.push([[], []]);
  tables.push([seconds(used.at), used[`${kind}_use`], used[`${kind}_limit`]]);
  const [x, value, use, limit] = window.uPlot.join(tables);
  const threshold = data.thresholds[name];
  return [x, value, x.map(() => threshold ?? null), use, limit];
}

function options([, label, unit], kind) {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  const fromZero = (_plot, _min, max) => [0, max > 0 ? max * 1.15 : 1];
  const axis = { stroke: colour('muted'), font: AXIS_FONT, ticks: { show: false }, labelFont: AXIS_FONT, labelSize: 18 };
  const named = (text) => (widthOf() < NARROW ? null : text);
  const grid = { stroke: colour('chart-grid'), width: 1 };
  return {
    width: widthOf(),
    height: HEIGHT,
    legend: { show: false },
    cursor: { drag: { x: false, y: false } },
    scales: { x: { time: true }, measure: { range: fromZero }, limit: { range: fromZero } },
    axes: [
      { ...axis, grid, space: 80, size: 28, values: '{HH}:{mm}:{ss}' },
      { ...axis, grid, scale: 'measure', size: 44, label: named(`${label}, ${unit}`) },
      { ...axis, grid: { show: false }, scale: 'limit', side: 1, size: 50,
        label: named(kind === 'cpu' ? 'CPU, millicores' : 'Memory, MiB') },
    ],
    series: [
      {},
      { label, scale: 'measure', stroke: colour('chart-measure'), width: 2, spanGaps: true, points: { show: false } },
      { label: 'threshold', scale: 'measure', stroke: colour('bad'), width: 1, dash: [5, 5], spanGaps: true,
        points: { show: false } },
      { label: 'use', scale: 'limit', stroke: colour('chart-use'), width: 1.5, spanGaps: true, points: { show: false } },
      { label: 'limit', scale: 'limit', stroke: colour('chart-limit'), width: 2, spanGaps: true,
        paths: window.uPlot.paths.stepped({ align: 1 }), points: { show: false } },
    ],
    hooks: { draw: [(made) => drawMarks(made, colour)] },
  };
}

/** A thin line where each scaling began. */
function drawMarks(made, colour) {
  const { ctx, bbox } = made;
  ctx.save();
  ctx.lineWidth = Math.max(1, devicePixelRatio);
  ctx.setLineDash([2 * devicePixelRatio, 3 * devicePixelRatio]);
  for (const mark of data?.marks ?? []) {
    const x = made.valToPos(mark.began / 1000, 'x', true);
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.strokeStyle = colour(mark.level);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}

function legend([name, label, unit], kind) {
  const value = lastOf(data?.measured[name]);
  const threshold = data?.thresholds[name];
  const limit = data?.used[`${kind}_limit`]?.at(-1);
  const use = data?.used[`${kind}_use`]?.at(-1);
  const measured = value === undefined ? '–' : `${Number(value.toPrecision(4))} ${unit}`;
  const items = [
    ['measure', label, measured],
    ['threshold', 'threshold', threshold === undefined ? null : `${threshold} ${unit}`],
    ['limit', 'limit', data?.used.at?.length ? amount(kind, limit) : '–'],
    ['use-line', 'use', use === undefined ? '–' : amount(kind, use)],
  ].filter(([, , text]) => text !== null);
  const list = byId('chart-legend');
  list.replaceChildren(...items.map(([key, word, text]) => h('li', { class: key }, `${word} `, h('b', {}, text))));
  set(byId('chart'), 'aria-label', `${items.map(([, word, text]) => `${word} ${text}`).join(', ')}, over the last minutes`);
}

