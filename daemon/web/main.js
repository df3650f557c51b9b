// Giusto's page: a host that is live, a plan, or a simulation.

import * as cores from 'cores';
import * as history from 'history';
import * as promises from 'promises';
import { element, fill } from 'rows';
import * as simulated from 'simulated';
import * as timeline from 'timeline';
import { number, share, time } from 'units';
import * as whatIf from 'what-if';

const given = JSON.parse(document.getElementById('data').textContent);
const token = new URLSearchParams(location.search).get('token');
const path = name => (token ? `${name}${name.includes('?') ? '&' : '?'}token=${encodeURIComponent(token)}` : name);

async function get(name) {
  const answer = await fetch(path(name));
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

function say(words, tone) {
  const place = document.getElementById('verdict');
  if (place.textContent !== words) place.textContent = words;
  place.className = tone;
}

function services(list) {
  fill(
    document.querySelector('#services tbody'),
    list.map(one => [
      `${one.name}/${one.vcpu}`,
      [
        one.vcpu === null ? one.name : `${one.name}, vCPU ${one.vcpu}`,
        one.core ?? 'several',
        one.budget_ns ? `${time(one.budget_ns)} every ${time(one.period_ns)}` : 'what is left',
        one.backend ?? '–',
        one.supplied_recent === undefined ? '–' : share(one.supplied_recent),
        one.misses ?? '–',
        one.state ?? 'planned',
      ],
    ]),
  );
}

function show(status) {
  document.getElementById('host').textContent = `Giusto on ${status.host}`;
  document.title = `${status.host}: Giusto`;
  say(...promises.verdict(status));
  const warnings = document.getElementById('warnings');
  warnings.hidden = !status.warnings.length;
  const list = document.getElementById('warning-list');
  if (list.dataset.shown !== status.warnings.join('\n')) {
    list.dataset.shown = status.warnings.join('\n');
    list.replaceChildren(...status.warnings.map(text => element('li', text)));
  }
  promises.show(status);
  cores.ofStatus(status);
  services(status.services);
  document.getElementById('packets').hidden = !status.network?.length;
  fill(
    document.querySelector('#links tbody'),
    (status.network ?? []).map(one => [
      one.name,
      [
        one.name,
        one.service ?? '–',
        one.class ?? '–',
        one.core ?? '–',
        Math.round(one.packets_per_s ?? 0),
        one.dropped ?? '–',
      ],
    ]),
  );
  history.show(status);
}

function live() {
  timeline.start(get);
  whatIf.start(get);
  const connection = document.getElementById('connection');
  const events = new EventSource(path('/events'));
  events.onmessage = event => {
    connection.textContent = '';
    show(JSON.parse(event.data));
  };
  events.onerror = () => {
    connection.textContent = 'No connection to Giusto; what is shown is the last that was told. It is tried again.';
  };
}

function reasons(all) {
  const place = document.getElementById('reasons');
  place.hidden = !all.length;
  for (const one of all) {
    const part = element('details'),
      list = element('dl');
    for (const { what, value, why } of one.reasons) list.append(element('dt', `${what}: ${value}`), element('dd', why));
    part.append(element('summary', one.name), list);
    place.append(part);
  }
}

function planned(plan) {
  document.getElementById('host').textContent = `Plan for ${plan.hosts.map(host => host.name).join(', ')}`;
  document.title = 'A plan: Giusto';
  say(
    `Everything fits: ${plan.services.length} services with a promise and ${plan.leftovers.length} that get what is left, ` +
      `on ${plan.hosts.length} hosts.`,
    'kept',
  );
  document.getElementById('promises-note').textContent = 'What is promised, and what the plan predicts.';
  document.getElementById('cores-note').textContent = 'What each service has reserved of a core.';
  promises.showPlan(plan);
  const servers = plan.services.map(one => ({
    ...one,
    budget_ns: one.server?.budget_ns,
    period_ns: one.server?.period_ns,
  }));
  const several = plan.hosts.length > 1;
  const name = (host, core) => (several ? `${core} of ${host}` : core);
  cores.show(
    plan.hosts.flatMap(host => host.cores.map(core => ({ core: name(host.name, core), words: '' }))),
    servers
      .filter(one => one.server)
      .map(one => ({
        name: one.name,
        core: name(one.on, one.core),
        reserved: number(`${one.budget_ns}/${one.period_ns}`),
      })),
  );
  reasons([...plan.services, ...plan.leftovers].filter(one => one.reasons?.length));
  services([
    ...servers,
    ...plan.leftovers.map(one => ({ name: one.name, vcpu: null, core: one.cores.join(', '), backend: null })),
  ]);
  document.getElementById('history').hidden = true;
}

if (given.plan) planned(given.plan);
else if (given.simulation) simulated.show(given.simulation, say);
else live();
