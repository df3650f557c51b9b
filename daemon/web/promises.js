// Promises: what was promised, what is, what was predicted; and the distribution of the one that was chosen.

import * as distribution from 'distribution';
import { fill } from 'rows';
import { time } from 'units';

const MINUTE = 60;
const past = []; // statuses of the last minute, for the distribution
let chosen;

/** Services and paths, which are observed alike. */
const observed = status => [...status.services, ...(status.paths ?? [])];

/** Every promised point of a status: [service or path, point]. */
export function points(status) {
  return observed(status).flatMap(one => (one.responses?.promised ?? []).map(point => [one, point]));
}

/** Every promise of a status that is observed, as it stands now: {name, verdict}. */
export function standings(status) {
  const percentiles = points(status).map(([one, point]) => ({
    name: `${one.name} ${percentile(point)}`,
    verdict: point.past[0].verdict,
  }));
  const supplies = supplied(status).map(one => ({ name: `${one.name} supply`, verdict: one.supply.past[0].verdict }));
  return [...percentiles, ...supplies];
}

const supplied = status => status.services.filter(one => one.supply?.past.length && !one.responses?.promised?.length);
const percentile = point => (point.percentile === 100 ? 'every' : `p${point.percentile}`);

/** The sentence at the top, and how it is meant. */
export function verdict(status) {
  const all = standings(status);
  const count = which => all.filter(one => one.verdict === which).length;
  const missed = all.filter(one => one.verdict === 'missed').map(one => one.name);
  if (status.state === 'starting' || status.state === 'stopping') return [`Giusto is ${status.state}.`, 'cannot-tell'];
  const wrong = status.warnings.length
    ? ` ${status.warnings.length} ${status.warnings.length > 1 ? 'things are' : 'thing is'} wrong, see below.`
    : '';
  if (missed.length)
    return [
      `${missed.length} of ${all.length} promises ${missed.length > 1 ? 'are' : 'is'} missed now: ` +
        `${missed.slice(0, 5).join(', ')}.${wrong}`,
      'missed',
    ];
  if (!all.length)
    return [
      `${status.services.length} services are enforced; of none is a promise observed yet.${wrong}`,
      wrong ? 'missed' : 'cannot-tell',
    ];
  if (count('kept') === all.length)
    return [`All ${all.length} promises are kept now.${wrong}`, wrong ? 'missed' : 'kept'];
  return [
    `${count('kept')} of ${all.length} promises are kept now; of the others too little is known.${wrong}`,
    wrong ? 'missed' : 'cannot-tell',
  ];
}

/** Brings the table and the distribution up to date. */
export function show(status) {
  past.push(status);
  while (past.length > MINUTE + 1) past.shift();
  const rows = points(status).map(([one, point]) => {
    const [now] = point.past;
    const causes = Object.entries(point.late_by)
      .sort((a, b) => b[1] - a[1])
      .map(([cause, many]) => `${cause} ${many}`)
      .join(', ');
    return [
      `${one.name} ${point.percentile}`,
      [
        {
          text: one.name,
          onclick: () => {
            chosen = one.name;
            draw(past.at(-1));
          },
        },
        `${percentile(point)} ≤ ${time(point.within_ns)}`,
        {
          text: time(now.now_ns),
          small: now.high_ns === null ? 'too few tell' : `${time(now.low_ns)} to ${time(now.high_ns)}`,
        },
        time(point.predicted_ns),
        {
          text: `${(100 * point.left).toFixed(0)} %`,
          small: point.late ? `${point.late} late${causes ? `: ${causes}` : ''}` : '',
        },
        { text: now.verdict.replace('-', ' '), className: now.verdict },
      ],
    ];
  });
  for (const one of supplied(status)) {
    const [now] = one.supply.past;
    rows.push([
      `${one.name}/${one.vcpu} supply`,
      [
        one.name,
        `${time(one.budget_ns)} every ${time(one.period_ns)}`,
        { text: `${now.missed} missed`, small: `of ${now.periods} periods` },
        '–',
        '–',
        { text: now.verdict.replace('-', ' '), className: now.verdict },
      ],
    ]);
  }
  fill(document.querySelector('#promises tbody'), rows.length ? rows : [['none', ['none', '–', '–', '–', '–', '–']]]);
  chosen ??= points(status)[0]?.[0].name;
  draw(status);
}

/** The buckets of a service in the last minute: [upper end in ns or null, how many]. */
function minute(name) {
  const of = status => new Map(observed(status).find(one => one.name === name)?.responses?.lengths ?? []);
  const first = past.length > 1 ? of(past[0]) : new Map();
  return [...of(past.at(-1))].map(([end, many]) => [end, many - (first.get(end) ?? 0)]).filter(([, many]) => many > 0);
}

function draw(status) {
  const one = status && observed(status).find(one => one.name === chosen);
  const now = one?.responses?.past[0];
  const buckets = one?.responses ? minute(chosen).sort((a, b) => a[0] - b[0]) : [];
  const all = buckets.reduce((sum, [, many]) => sum + many, 0);
  distribution.show(
    chosen,
    buckets,
    one?.responses?.promised ?? [],
    `${all} requests of the last minute (line; p50 ${time(now?.p50_ns)}, p99 ${time(now?.p99_ns)}, longest ${time(now?.max_ns)})`,
  );
}

/** Everything but the distribution, of a plan that is not enforced. */
export function showPlan(plan) {
  const rows = plan.services.flatMap(one => {
    const promise = one.promise?.percentiles;
    if (!promise) return [[`${one.name}/${one.vcpu}`, [one.name, word(one.promise), '–', '–', '–', 'planned']]];
    const predicted = one.certificate?.percentiles?.predicted ?? [];
    return promise.points.map(point => [
      `${one.name} ${point.percentile}`,
      [
        one.name,
        `${point.percentile} ≤ ${time(point.within_ns)}`,
        '–',
        time(predicted.find(at => at.percentile === point.percentile)?.at_ns),
        '–',
        'planned',
      ],
    ]);
  });
  const paths = (plan.paths ?? []).flatMap(path => {
    const every = path.every ? [{ ...path.every, percentile: 'every message' }] : [];
    return [...(path.points ?? []), ...every].map(point => [
      `path ${path.name} ${point.percentile}`,
      [
        `path ${path.name}`,
        `${point.percentile} ≤ ${time(point.within_ns)}`,
        '–',
        { text: time(point.at_ns), small: 'proven' },
        '–',
        'planned',
      ],
    ]);
  });
  fill(document.querySelector('#promises tbody'), [...rows, ...paths]);
}

/** What a promise is called. */
export function word(promise) {
  return typeof promise === 'string' ? promise : Object.keys(promise)[0];
}
