// The cores of the host: what is reserved on each, and what was taken of it.

import { element } from 'rows';
import { share, time } from 'units';

const shades = new Map();

/** A colour that a name keeps on this page. */
export function shade(name) {
  if (!shades.has(name)) shades.set(name, shades.size % 8);
  return `var(--s${shades.get(name)})`;
}

/** Draws them; `services` are {name, core, reserved, taken}. */
export function show(cores, services) {
  const place = document.getElementById('cores');
  const drawn = cores.map(({ core, words }) => {
    const here = services.filter(one => one.core === core);
    const bar = element('div', undefined, { className: 'bar' });
    bar.setAttribute('role', 'img');
    bar.setAttribute(
      'aria-label',
      `core ${core}: ${
        here
          .map(
            one =>
              `${one.name} has ${share(one.reserved)}` +
              (one.taken === undefined ? '' : ` and took ${share(one.taken)}`),
          )
          .join('; ') || 'nothing is reserved'
      }`,
    );
    for (const one of here) {
      const part = element('span', undefined, { className: 'part', title: one.name });
      part.style.width = `${100 * one.reserved}%`;
      part.style.setProperty('--shade', shade(one.name));
      const taken = element('i');
      taken.style.height = `${100 * Math.min(1, (one.taken ?? 0) / (one.reserved || 1))}%`;
      part.append(taken, element('b', one.name));
      bar.append(part);
    }
    const row = element('div', undefined, { className: 'core' });
    const reserved = here.reduce((sum, one) => sum + one.reserved, 0);
    row.append(
      element('span', `core ${core}`),
      bar,
      element('span', `${share(reserved)} reserved${words ? `; ${words}` : ''}`, { className: 'words' }),
    );
    return row;
  });
  place.replaceChildren(...drawn);
}

/** From a status. */
export function ofStatus(status) {
  const services = status.services
    .filter(one => one.core !== null && one.budget_ns)
    .map(one => ({
      name: one.vcpu === null ? one.name : `${one.name}/${one.vcpu}`,
      core: one.core,
      reserved: one.budget_ns / one.period_ns,
      taken: one.supplied_recent,
    }));
  const cores = status.cores.map(one => {
    const words = [];
    if (one.manager_cost) words.push(`the manager takes ${share(one.manager_cost)}`);
    if (one.lateness_max_ns) words.push(`it woke up ${time(one.lateness_max_ns)} late at most`);
    if (one.criticality) words.push(one.criticality.is_hi ? 'in HI' : 'in LO');
    return { core: one.core, words: words.join(', ') };
  });
  show(cores, services);
}
