// What happened: modes, plans, promises that were broken and kept again, services that ended.

import { standings } from 'promises';
import { fill } from 'rows';
import { clock, share, time } from 'units';

const MOST = 200;
const events = []; // newest first: [Unix time in ns, or null: before this page looked; words]
let before;
let lastChange = 0; // of modes: its number

function add(words, at = Date.now() * 1e6) {
  events.unshift([at, words]);
  events.length = Math.min(events.length, MOST);
}

/** Compares a status with the one before. */
export function show(status) {
  if (!before)
    document.getElementById('since').textContent =
      `This page looks since ${clock(Date.now() * 1e6)}; Giusto runs since ${clock(status.since_ns)}.`;
  for (const one of (status.modes?.changes ?? []).filter(one => one.change > lastChange)) {
    add(`mode ${one.from} → ${one.to}: ${one.outcome} in ${time(one.took_ns)}`, before ? undefined : null);
    lastChange = one.change;
  }
  for (const one of status.adaptations ?? []) {
    if (!before?.adaptations?.some(old => old.at_ns === one.at_ns && old.service === one.service))
      add(`${one.service} was planned anew, ${share(one.from)} → ${share(one.to)} of a core: ${one.why}`, one.at_ns);
  }
  if (before) {
    const told = new Map(standings(before).map(one => [one.name, one.verdict]));
    for (const { name, verdict } of standings(status)) {
      const old = told.get(name);
      if (old && old !== verdict) add(`${name}: ${old.replace('-', ' ')} → ${verdict.replace('-', ' ')}`);
    }
    const old = new Map(before.services.map(one => [`${one.name}/${one.vcpu}`, one]));
    for (const one of status.services) {
      const was = old.get(`${one.name}/${one.vcpu}`);
      if (!was) add(`${one.name} is in the plan now`);
      else if (was.core !== one.core || was.budget_ns !== one.budget_ns || was.period_ns !== one.period_ns)
        add(`${one.name} has another server`);
      if (was && one.restarts > was.restarts) add(`${one.name} ${one.last_end ?? 'ended'} and was started again`);
      if (was && one.misses > was.misses)
        add(`${one.name} wanted the core throughout ${one.misses - was.misses} periods and did not get its budget`);
    }
    const there = new Set(status.services.map(one => `${one.name}/${one.vcpu}`));
    for (const [key, was] of old) if (!there.has(key)) add(`${was.name} is in the plan no more`);
    for (const warning of status.warnings) if (!before.warnings.includes(warning)) add(warning);
  }
  before = status;
  fill(
    document.querySelector('#events tbody'),
    events.length
      ? events.map(([at, words], nth) => [`${events.length - nth}`, [at === null ? 'earlier' : clock(at), words]])
      : [['0', ['–', 'nothing yet']]],
  );
}
