// Times and shares in words.

const UNITS = [
  [1e9, 's'],
  [1e6, 'ms'],
  [1e3, 'us'],
  [1, 'ns'],
];

/** A time in ns with three digits. */
export function time(ns) {
  if (ns === null || ns === undefined) return '–';
  if (ns === 0) return '0 ms';
  const [unit, name] = UNITS.find(([unit]) => Math.abs(ns) >= unit) ?? UNITS[3];
  const value = ns / unit;
  return `${value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0)} ${name}`;
}

/** A share in percent; "3/20" is one too. */
export function share(value) {
  return `${(100 * number(value)).toFixed(1)} %`;
}

/** A number, or a fraction such as "3/20". */
export function number(value) {
  if (typeof value === 'number') return value;
  const [above, below] = String(value).split('/').map(Number);
  return below ? above / below : above;
}

/** A time of day of a Unix time in ns. */
export function clock(ns) {
  return new Date(ns / 1e6).toLocaleTimeString([], { hour12: false });
}
