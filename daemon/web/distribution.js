// The distribution of one service's response times, beside what was promised and predicted.

import { time } from 'units';

const [LEFT, TOP, WIDE, HIGH] = [86, 14, 540, 236];

function svg(name, attributes, text) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

/** Draws `buckets`, [upper end in ns, how many], by length; `promised` are {percentile, within_ns, predicted_ns}. */
export function show(name, buckets, promised, words) {
  const figure = document.getElementById('distribution');
  figure.hidden = !buckets.length;
  if (figure.hidden) return;
  const all = buckets.reduce((sum, [, many]) => sum + many, 0);
  const times = [
    ...buckets.map(([end]) => end),
    ...promised.flatMap(point => [point.within_ns, point.predicted_ns ?? point.within_ns]),
  ];
  const ends = times.filter(ns => ns < 1e15);
  const least = Math.floor(Math.log10(Math.min(...ends) / 3)),
    most = Math.ceil(Math.log10(Math.max(...ends)));
  const x = ns => LEFT + WIDE * Math.min(1, Math.max(0, (Math.log10(ns) - least) / Math.max(1, most - least)));
  const y = part => TOP + HIGH * Math.min(1, -Math.log10(Math.max(part, 1e-4)) / 4);
  const plot = document.getElementById('distribution-plot');
  const drawn = [svg('title', {}, `Response times of ${name}`)];
  for (let power = least; power <= most; power++) {
    drawn.push(svg('line', { class: 'grid', x1: x(10 ** power), x2: x(10 ** power), y1: TOP, y2: TOP + HIGH }));
    drawn.push(
      svg(
        'text',
        { x: x(10 ** power), y: TOP + HIGH + 22, 'text-anchor': power === most ? 'end' : 'middle' },
        time(10 ** power).replace(/\.0+ /, ' '),
      ),
    );
  }
  for (const [part, word] of [
    [1, 'all'],
    [0.1, '10 %'],
    [0.01, '1 %'],
    [1e-3, '0.1 %'],
    [1e-4, '0.01 %'],
  ]) {
    drawn.push(svg('line', { class: 'grid', x1: LEFT, x2: LEFT + WIDE, y1: y(part), y2: y(part) }));
    drawn.push(svg('text', { x: LEFT - 6, y: y(part) + 4, 'text-anchor': 'end' }, word));
  }
  for (const point of promised) {
    const may = 1 - point.percentile / 100;
    drawn.push(
      svg('rect', {
        class: 'beyond',
        x: x(point.within_ns),
        y: TOP,
        width: LEFT + WIDE - x(point.within_ns),
        height: Math.max(0, y(may) - TOP),
      }),
    );
    drawn.push(
      svg('path', { class: 'limit', fill: 'none', d: `M${x(point.within_ns)} ${TOP}V${y(may)}H${LEFT + WIDE}` }),
    );
    if (point.predicted_ns)
      drawn.push(svg('circle', { class: 'predicted', cx: x(point.predicted_ns), cy: y(may), r: 4 }));
  }
  let later = all,
    path = `M${LEFT} ${y(1)}`;
  for (const [end, many] of buckets) {
    later -= many;
    path += `H${x(Math.min(end, 1e12))}V${y(later / all)}`;
  }
  drawn.push(svg('path', { class: 'now', d: path }));
  plot.replaceChildren(...drawn);
  document.getElementById('distribution-title').textContent = `${name}: the part that takes longer.`;
  document.getElementById('distribution-words').textContent =
    `${words}; predicted (dots); the shaded ground is beyond the promise.`;
}
