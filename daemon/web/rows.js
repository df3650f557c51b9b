// Tables whose rows stay where they are: only what differs is written, so that a thousand of them cost little.

/** An element with text. */
export function element(name, text, properties = {}) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  return Object.assign(made, properties);
}

/** Fills `body`: `rows` are [key, cells]; a cell is text, or {text, small, className, onclick}; the first one heads its row. */
export function fill(body, rows) {
  const known = new Map([...body.children].map(row => [row.dataset.key, row]));
  let place = body.firstChild;
  for (const [key, cells] of rows) {
    let row = known.get(key);
    known.delete(key);
    if (!row) {
      row = element('tr');
      row.dataset.key = key;
      cells.forEach((_, at) => row.append(element(at ? 'td' : 'th', undefined, at ? {} : { scope: 'row' })));
    }
    if (row !== place) body.insertBefore(row, place);
    place = row.nextSibling;
    cells.forEach((cell, at) => write(row.children[at], typeof cell === 'object' ? cell : { text: String(cell) }));
  }
  for (const row of known.values()) row.remove();
}

function write(place, { text, small = '', className = '', onclick }) {
  const shown = `${text}\n${small}\n${className}`;
  if (place.shown === shown) return;
  place.shown = shown;
  place.className = className;
  const button = place.querySelector('button');
  if (onclick && !button) place.replaceChildren(element('button', text, { type: 'button', onclick }));
  else if (onclick) button.textContent = text;
  else place.replaceChildren(text, ...(small ? [element('small', small)] : []));
}
