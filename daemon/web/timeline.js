// Who had which core, on a canvas, with zoom to a microsecond: of a host that is live, or of a simulation.

import { shade } from 'cores';
import { share, time } from 'units';

const ROW = 26,
  NAME = 130,
  MOST = 400, // lanes: a canvas is not higher
  APART = 4; // pixels between marks that can be told apart
let data,
  from = 0,
  length = 1e9,
  polling,
  ask;
const canvas = document.getElementById('lanes');
const record = document.getElementById('record');

/** Of a host that is live: `get` asks the server for a path, and gives its JSON. */
export function start(get) {
  ask = get;
  record.onclick = () => (polling ? stop() : begin());
  prepare();
}

/** What was simulated: {length_ns, cores: [{core, lanes}]}, with the times of jobs and budgets in its lanes. */
export function show(simulated, note) {
  data = simulated;
  const most = data.cores.flatMap(core => core.lanes).reduce((most, lane) => Math.max(most, lane.runs.length), 1);
  length = Math.min(kept(), Math.max(1000, (kept() / most) * 100));
  record.hidden = true;
  document.getElementById('timeline-note').textContent = note;
  document.getElementById('whole').textContent = 'All of it';
  prepare();
}

/** How long a time is kept. */
const kept = () => data?.until_ns ?? data?.length_ns ?? 1e9;

function prepare() {
  document.getElementById('timeline').hidden = false;
  document.getElementById('zoom-in').onclick = () => zoom(0.5);
  document.getElementById('zoom-out').onclick = () => zoom(2);
  document.getElementById('whole').onclick = () => {
    from = 0;
    length = kept();
    draw();
  };
  canvas.onkeydown = event => {
    const act = { ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2), '+': () => zoom(0.5), '-': () => zoom(2) }[
      event.key
    ];
    if (act) {
      act();
      event.preventDefault();
    }
  };
  canvas.addEventListener(
    'wheel',
    event => {
      event.preventDefault();
      zoom(event.deltaY > 0 ? 1.25 : 0.8, event.offsetX / canvas.clientWidth);
    },
    { passive: false },
  );
  let drag;
  canvas.onpointerdown = event => {
    drag = event.offsetX;
    canvas.setPointerCapture(event.pointerId);
  };
  canvas.onpointermove = event => {
    if (drag !== undefined) {
      move((drag - event.offsetX) / canvas.clientWidth);
      drag = event.offsetX;
    }
  };
  canvas.onpointerup = () => {
    drag = undefined;
  };
  addEventListener('resize', draw);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
  draw();
}

async function begin() {
  record.setAttribute('aria-pressed', 'true');
  record.textContent = 'Stop';
  polling = setInterval(look, 1000);
  await look();
}

function stop() {
  clearInterval(polling);
  polling = undefined;
  record.setAttribute('aria-pressed', 'false');
  record.textContent = 'Record';
}

async function look() {
  try {
    data = await ask('/timeline');
    if (data.lacking) stop();
    draw();
  } catch {
    stop();
  }
}

function zoom(times, at = 0.5) {
  const next = Math.min(kept(), Math.max(1000, length * times));
  from = Math.max(0, Math.min(kept() - next, from + (length - next) * at));
  length = next;
  draw();
}

function move(part) {
  from = Math.max(0, Math.min(kept() - length, from + part * length));
  draw();
}

function draw() {
  const all = data?.cores.flatMap(core => core.lanes.map(lane => ({ ...lane, core: core.core }))) ?? [];
  const lanes = all.slice(0, MOST);
  const scale = devicePixelRatio || 1,
    wide = canvas.clientWidth || 600,
    high = Math.max(1, lanes.length) * ROW + 28;
  canvas.style.height = `${high}px`;
  canvas.width = wide * scale;
  canvas.height = high * scale;
  const pen = canvas.getContext('2d'),
    style = getComputedStyle(document.documentElement);
  const colour = name => style.getPropertyValue(name.replace(/var\(|\)/g, ''));
  pen.scale(scale, scale);
  pen.font = '12px system-ui, sans-serif';
  const x = ns => NAME + ((wide - NAME) * (ns - from)) / length;
  pen.fillStyle = colour('--soft');
  pen.strokeStyle = colour('--grid');
  const step = 10 ** Math.floor(Math.log10(length)) / (length / 10 ** Math.floor(Math.log10(length)) < 3 ? 5 : 1);
  for (let at = Math.ceil(from / step) * step; at <= from + length; at += step) {
    pen.strokeRect(x(at), 0, 0, high - 20);
    if (wide > 500 || Math.round(at / step) % 4 === 0) pen.fillText(time(at), x(at) + 3, high - 6);
  }
  lanes.forEach((lane, row) => {
    pen.fillStyle = colour('--ink');
    pen.fillText(`${lane.core}: ${lane.name}`.slice(0, 20), 4, row * ROW + 19);
    lay(pen, lane, row * ROW + 6, x, colour);
  });
  document.getElementById('span').textContent = data ? `${time(length)} from ${time(from)}` : '';
  document.getElementById('lanes-words').textContent =
    data?.lacking ?? (data ? words(lanes, all.length) : 'Nothing is recorded yet.');
}

/** Draws what a lane has between the ends of the canvas. */
function lay(pen, lane, top, x, colour) {
  const shown = list => {
    const here = (list ?? []).filter(at => at >= from && at <= from + length);
    return here.length * APART < x(from + length) - NAME ? here : [];
  };
  const part = (list, offset, thick) => {
    for (const [at, long, job] of list ?? []) {
      if (at + long < from || at > from + length) continue;
      const left = Math.max(NAME, x(at));
      // Neighbouring jobs of a task are told apart.
      pen.globalAlpha = Math.floor((job ?? 0) / 256) % 2 ? 0.6 : 1;
      pen.fillRect(left, top + offset, Math.max(0.7, x(at + long) - left), thick);
    }
    pen.globalAlpha = 1;
  };
  pen.fillStyle = colour(/^(all )?others/.test(lane.name) ? '--soft' : shade(lane.name));
  part(lane.waits, 12, 2);
  part(lane.runs, 3, 13);
  for (const at of shown(lane.wakes)) pen.fillRect(x(at), top, 1, 16);
  pen.fillStyle = colour('--ink');
  for (const at of shown(lane.releases)) pen.fillRect(x(at), top - 4, 1.5, 16);
  pen.fillStyle = colour('--missed');
  for (const at of shown(lane.deadlines)) pen.fillRect(x(at), top + 3, 1.5, 17);
  if (!lane.budget?.length) return;
  const most = lane.budget.reduce((most, [, left]) => Math.max(most, left), 1);
  pen.strokeStyle = colour('--kept');
  pen.beginPath();
  lane.budget.forEach(([at, left], nth) => {
    const next = lane.budget[nth + 1]?.[0] ?? at;
    const [across, up] = [Math.max(NAME, x(at)), top + 17 - (14 * left) / most];
    if (next < from || lane.budget[nth - 1]?.[0] > from + length) pen.moveTo(across, up);
    else pen.lineTo(across, up);
  });
  pen.stroke();
}

function words(lanes, all) {
  const ran = lane =>
    `${lane.name} ran ${share(total(lane.runs) / kept())} of core ${lane.core} in ${lane.runs.length} pieces, the longest ` +
    `${time(longest(lane.runs))}` +
    (lane.waits ? `, and waited ${time(longest(lane.waits))} at most` : '') +
    (lane.deadlines?.length ? `; ${lane.deadlines.length} jobs came` : '');
  const told = lanes.filter(lane => lane.runs.length || !lane.budget?.length).map(ran);
  const more = all > lanes.length ? `; ${all - lanes.length} more are not drawn` : '';
  return `${told.join('; ')}${more}${data.lost ? `; ${data.lost} changes were lost` : ''}.`;
}

const total = list => list.reduce((sum, [, long]) => sum + long, 0);
const longest = list => list.reduce((most, [, long]) => Math.max(most, long), 0);
