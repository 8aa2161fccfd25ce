// Nodes: their agents, and how much is allocated, reserved and available.

import { byId, h, keyed, say, set, show } from './dom.js';
import { rows } from './live.js';
import { amount, percent } from './words.js';

const NAMES = { cpu: 'CPU', memory: 'Memory' };
const AGENT_LEVEL = { ready: 'good', init: 'busy', disconnected: 'warn' };

export function drawNodes() {
  keyed(byId('node-list'), rows('nodes'), (row) => row.node, make, update);
}

function make(row) {
  const parts = {
    agent: h('span', { class: 'pill' }),
    simulated: h('span', { class: 'pill', 'data-level': 'warn', title: 'No real container is changed.' }, 'simulated'),
    runtime: h('span', { class: 'runtime' }),
    cpu: capacity('cpu', row.node),
    memory: capacity('memory', row.node),
  };
  const head = h('div', { class: 'node-head' }, h('strong', {}, row.node), parts.agent, parts.simulated, parts.runtime);
  return { ...parts, element: h('li', { class: 'card' }, head, parts.cpu.element, parts.memory.element) };
}

function capacity(resource, node) {
  const parts = {
    free: h('b'),
    total: h('span', { class: 'muted' }),
    load: h('span', { class: 'muted' }),
    allocated: h('span', { class: 'part allocated' }),
    reserved: h('span', { class: 'part reserved' }),
    allocatedText: h('span', { class: 'allocated' }),
    reservedText: h('span', { class: 'reserved' }),
  };
  const line = h('div', { class: 'line' }, h('span', {}, `${NAMES[resource]} `, parts.free, parts.total), parts.load);
  const bar = h('div', { class: 'bar', role: 'img' }, parts.allocated, parts.reserved);
  const keys = h('div', { class: 'keys' }, parts.allocatedText, parts.reservedText);
  return { ...parts, bar, node, element: h('div', { class: 'capacity' }, line, bar, keys) };
}

function update(made, row) {
  set(made.agent, 'data-level', AGENT_LEVEL[row.agent] ?? 'bad');
  say(made.agent, `agent ${row.agent}`);
  show(made.simulated, Boolean(row.simulated));
  say(made.runtime, row.simulated ? '' : (row.runtime ?? ''));
  for (const resource of ['cpu', 'memory']) {
    show(made[resource].element, Boolean(row[resource]));
    if (row[resource]) fill(made[resource], resource, row[resource], loadOf(row, resource));
  }
}

function loadOf(row, resource) {
  if (!row.load) return '';
  return resource === 'cpu' ? `${row.load.cpu_percent} % busy` : `${row.load.memory}Mi in use`;
}

function fill(made, resource, capacity, load) {
  const { total, allocated, reserved, available } = capacity;
  made.allocated.style.width = `${percent(allocated, total)}%`;
  made.reserved.style.width = `${percent(reserved, total)}%`;
  say(made.free, `${amount(resource, available)} available`);
  say(made.total, ` of ${amount(resource, total)}`);
  say(made.load, load);
  say(made.allocatedText, `allocated ${amount(resource, allocated)}`);
  say(made.reservedText, `reserved ${amount(resource, reserved)}`);
  set(
    made.bar,
    'aria-label',
    `${NAMES[resource]} of ${made.node}: ${amount(resource, allocated)} allocated, ${amount(resource, reserved)} ` +
      `reserved, ${amount(resource, available)} available of ${amount(resource, total)}`,
  );
}
