// The plan if a service were asked for more, or less; and how it would fare with another budget.

import { element } from 'rows';
import { time } from 'units';

/** `get` asks the server for a path, and gives its JSON. */
export async function start(get) {
  const place = document.getElementById('what-if');
  const asked = await Promise.all([work(get), budget(get)]);
  place.hidden = !asked.some(Boolean);
}

/** Asks at each change of the form; an answer that comes after a later question's is not shown. */
function answers(form, says, ask) {
  let turn = 0;
  form.oninput = async () => {
    const own = ++turn;
    const words = (await ask()).says.join(' ');
    if (own === turn) says.textContent = words;
  };
  return form.oninput();
}

function offer(id, names) {
  document.getElementById(id).replaceChildren(...names.map(name => element('option', name)));
  return names.length > 0;
}

async function work(get) {
  const form = document.getElementById('what-work');
  const { services } = await get('/what-if').catch(() => ({ services: [] }));
  form.hidden = !offer('what-service', services);
  if (form.hidden) return false;
  await answers(form, document.getElementById('what-says'), () => {
    const times = form.elements.load.value / 100;
    document.getElementById('what-load-says').textContent = `${times.toFixed(2)} times`;
    return get(`/what-if?service=${encodeURIComponent(form.elements.service.value)}&load=${times}`);
  });
  return true;
}

async function budget(get) {
  const form = document.getElementById('budget');
  const { services } = await get('/budget').catch(() => ({ services: [] }));
  form.hidden = !offer(
    'budget-service',
    services.map(one => one.name),
  );
  if (form.hidden) return false;
  const { service, part } = form.elements;
  const chosen = () => services.find(one => one.name === service.value);
  service.onchange = () => {
    part.value = (100 * chosen().budget_ns) / chosen().period_ns;
  };
  service.onchange();
  await answers(form, document.getElementById('budget-says'), () => {
    const ns = Math.max(1000, (chosen().period_ns * part.value) / 100);
    document.getElementById('budget-part-says').textContent = `${time(ns)} every ${time(chosen().period_ns)}`;
    return get(`/budget?service=${encodeURIComponent(service.value)}&ms=${ns / 1e6}`);
  });
  return true;
}
