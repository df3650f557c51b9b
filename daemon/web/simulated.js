// The page of a simulation: how the promises of a plan stand in it, and its schedule.

import * as cores from 'cores';
import * as distribution from 'distribution';
import { word } from 'promises';
import { fill } from 'rows';
import * as timeline from 'timeline';
import { number, share, time } from 'units';

const name = one => (one.vcpu === null ? one.service : `${one.service}, vCPU ${one.vcpu}`);
const percent = percentile => Number(percentile.replace('p', ''));

/** Each promise that a simulated service has: {promised, simulated, small, predicted, verdict}. */
function judged(one, plan) {
  const promise = plan.promise?.percentiles;
  if (one.overloaded)
    return [{ promised: word(plan.promise), simulated: 'overloaded', small: one.overloaded, verdict: 'missed' }];
  if (promise && one.promised) {
    const predicted = plan.certificate?.percentiles?.predicted ?? [];
    return one.promised.points.map(point => ({
      promised: `${point.percentile} ≤ ${time(point.within_ns)}`,
      simulated: time(point.measured.value_ns),
      small:
        point.measured.high_ns === null
          ? 'too few jobs tell'
          : `${time(point.measured.low_ns)} to ${time(point.measured.high_ns)}`,
      predicted: time(predicted.find(at => at.percentile === point.percentile)?.at_ns),
      verdict: point.verdict,
    }));
  }
  if (one.tasks)
    return one.tasks.map(task => ({
      promised: `${task.task || 'every job'} within ${time(task.deadline_ns)}`,
      simulated: task.prediction ? time(task.prediction.max_ns) : '–',
      small: task.prediction ? `the longest of ${task.prediction.jobs} jobs, ${task.late} late` : 'no job finished',
      verdict: task.late ? 'missed' : task.prediction ? 'kept' : 'cannot-tell',
    }));
  const simulated = one.prediction ? `p99 ${time(one.prediction.p99_ns)}` : '–';
  const small = one.prediction ? `the longest ${time(one.prediction.max_ns)}` : 'no tasks are described';
  return [{ promised: word(plan.promise), simulated, small, verdict: '' }];
}

function verdict(all) {
  const told = all.filter(one => one.verdict);
  const missed = told.filter(one => one.verdict === 'missed');
  if (missed.length) {
    const [first] = missed;
    const are = missed.length === 1 ? 'is' : 'are';
    const many = `In this simulation ${missed.length} of ${told.length} promises ${are} missed`;
    return [`${many}: ${first.name}, ${first.promised}.`, 'missed'];
  }
  const kept = told.filter(one => one.verdict === 'kept').length;
  if (!told.length) return ['No promise of this plan can be judged by a simulation.', 'cannot-tell'];
  if (kept === 1 && told.length === 1) return ['The only promise that can be judged is kept in this simulation.', 'kept'];
  if (kept === told.length) return [`All ${kept} promises that can be judged are kept in this simulation.`, 'kept'];
  return [
    `${kept} of ${told.length} promises ${kept === 1 ? 'is' : 'are'} kept in this simulation; for the others it is too short.`,
    'cannot-tell',
  ];
}

/** Each promise of a simulated path. */
function ofPath(one, plan) {
  const from = { name: `path ${one.path}`, of: { ...one, is_planned: true, scheduler: `${plan.through.length} stages` } };
  const points = (one.promised?.points ?? []).map(point => ({
    ...from,
    ...judged({ promised: { points: [point] } }, asPercentiles(one.proven))[0],
  }));
  if (one.late === null) return points;
  const every = {
    ...from,
    promised: `every message ≤ ${time(plan.every.within_ns)}`,
    simulated: time(one.response_ns[3]),
    small: `the longest of ${one.messages} messages, ${one.late} late`,
    predicted: time(plan.every.at_ns),
    verdict: one.late ? 'missed' : 'kept',
  };
  return [...points, every];
}

const asPercentiles = predicted => ({
  promise: { percentiles: true },
  certificate: { percentiles: { predicted } },
});

/** Shows it: {plan, conditions, services, paths, timeline}; `say` says the sentence at the top. */
export function show({ plan, conditions, services, paths, timeline: drawn }, say) {
  const hosts = plan.hosts.map(host => host.name).join(', ');
  document.getElementById('host').textContent = `Simulation of ${hosts}`;
  document.title = `${hosts}: a simulation by Giusto`;
  const heads = document.querySelectorAll('#promises th');
  heads[2].textContent = 'Simulated';
  heads[4].textContent = 'Under';
  document.getElementById('promises-note').textContent = `What was promised, and what became of it: ${conditions}.`;
  document.getElementById('cores-note').textContent =
    'What each service has reserved of a core (outlined) and what it took (filled).';
  const planned = one =>
    plan.services.find(other => other.name === one.service && other.vcpu === one.vcpu && other.on === one.on);
  const choose = one => {
    const points = one.promised?.points ?? [];
    const predicted = planned(one).certificate?.percentiles?.predicted ?? [];
    const promised = points.map(point => ({
      percentile: percent(point.percentile),
      within_ns: point.within_ns,
      predicted_ns: predicted.find(at => at.percentile === point.percentile)?.at_ns,
    }));
    distribution.show(name(one), one.lengths, promised, `${one.prediction.jobs} jobs under ${one.scheduler} (line)`);
  };
  const choosePath = one => {
    const promised = (one.promised?.points ?? []).map(point => ({
      percentile: percent(point.percentile),
      within_ns: point.within_ns,
      predicted_ns: one.proven.find(at => at.percentile === point.percentile)?.at_ns,
    }));
    distribution.show(`path ${one.path}`, one.lengths, promised, `${one.messages} messages (line)`);
  };
  const all = [
    ...services.flatMap(one => judged(one, planned(one)).map(each => ({ ...each, name: name(one), of: one }))),
    ...paths.flatMap((one, nth) => ofPath(one, plan.paths[nth])),
  ];
  fill(
    document.querySelector('#promises tbody'),
    all.map((one, nth) => [
      `${nth}`,
      [
        one.of.lengths.length ? { text: one.name, onclick: () => (one.of.path ? choosePath : choose)(one.of) } : one.name,
        one.promised,
        { text: one.simulated, small: one.small },
        one.of.path ? { text: one.predicted, small: 'proven' } : (one.predicted ?? '–'),
        one.of.scheduler,
        { text: one.verdict.replace('-', ' '), className: one.verdict },
      ],
    ]),
  );
  // Other schedulers were asked for to be compared with: they promise nothing.
  say(...verdict(all.filter(one => one.of.is_planned)));
  const first = services.find(one => one.lengths.length);
  if (first) choose(first);
  else if (paths.length) choosePath(paths[0]);
  const ofStage = one => {
    const places = paths.map((path, nth) => plan.paths[nth].through.findIndex(stage => stage.service === one.name));
    const nth = places.findIndex(place => place >= 0);
    return nth < 0 ? undefined : paths[nth].taken[places[nth]];
  };
  const taken = one => services.find(other => other.is_planned && planned(other) === one)?.taken ?? ofStage(one);
  const several = plan.hosts.length > 1;
  const core = one => (several ? `${one.core} of ${one.on}` : one.core);
  cores.show(
    plan.hosts.flatMap(host => host.cores.map(one => ({ core: core({ core: one, on: host.name }), words: '' }))),
    plan.services
      .filter(one => one.server)
      .map(one => ({
        name: one.name,
        core: core(one),
        reserved: number(`${one.server.budget_ns}/${one.server.period_ns}`),
        taken: taken(one) ?? undefined,
      })),
  );
  fill(
    document.querySelector('#services tbody'),
    plan.services.map((one, nth) => {
      const row = services.find(other => other.is_planned && planned(other) === one);
      const server = one.server ? `${time(one.server.budget_ns)} every ${time(one.server.period_ns)}` : 'a whole core';
      const took = taken(one);
      const got = took === undefined ? '–' : share(took);
      return [`${nth}`, [one.name, core(one), server, row?.scheduler ?? '–', got, row?.unfinished ?? '–', 'simulated']];
    }),
  );
  document.querySelectorAll('#services th')[5].textContent = 'Unfinished';
  document.getElementById('history').hidden = true;
  const until = drawn.until_ns ? ` The beginning is kept: ${time(drawn.until_ns)} of the busiest service.` : '';
  timeline.show(
    drawn,
    'Each service beside another one that takes the rest of its core, a path with all services of its cores. Filled: it ran, ' +
      'neighbouring jobs in two shades; tick above: a job came; red tick below: its deadline, or the end of the time that is ' +
      'planned for it at a stage (where they can be told apart); line: what was left of the budget. ' +
      `The arrow keys move, + and − zoom.${until}`,
  );
}
