#!/usr/bin/env python3
"""Draws the rooms of this repository and which uses which (docs/architecture.svg), from their own Cargo.toml, and in each
which file uses which (docs/rooms), and checks that each uses rooms on lower floors only, and that in no room files use each
other in a circle.

    scripts/architecture.py           draw
    scripts/architecture.py --check   1 where a drawing is not what the code says, a room uses one beside or above it,
                                      or its files use each other in a circle
"""
import sys
import tomllib
from html import escape
from pathlib import Path

from circles import circles, java, javascript, rust
from layers import STYLE, direct, layered

ROOT = Path(__file__).resolve().parent.parent
DRAWING = ROOT / "docs/architecture.svg"
ROOMS = ROOT / "docs/rooms"
# From the top down. What a room holds is in docs/architecture.md.
FLOORS = [
    ["cli", "python"],
    ["daemon", "studies", "answers"],
    ["planner", "verify"],
    ["simulator", "compute", "network", "measure", "agent"],
    ["modes"],
    ["site", "analysis", "traces", "host", "cgroup", "policy"],
    ["model"],
]
WIDTH, ROW, BOX_W, BOX_H, TOP = 860, 92, 110, 36, 30


def uses():
    """The rooms that each room is built from; what only its tests use does not count."""
    members = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["members"]
    found = {}
    for room in members:
        manifest = tomllib.loads((ROOT / room / "Cargo.toml").read_text())
        names = manifest.get("dependencies", {})
        found[room] = sorted(name.removeprefix("giusto-") for name in names if name.startswith("giusto-"))
    return found


def broken(rooms):
    floor = {room: len(FLOORS) - 1 - nth for nth, row in enumerate(FLOORS) for room in row}
    for room in rooms:
        if room not in floor:
            yield f"{room}: it has no floor; expected a place in FLOORS of scripts/architecture.py"
    for room, used in rooms.items():
        for other in used:
            if floor.get(room, 99) <= floor.get(other, -1):
                yield f"{room} uses {other}, which is on floor {floor[other]}; expected one below floor {floor[room]}"


def files(rooms):
    """(room, what its files use), of all languages in which files may use each other in a circle."""
    for room in rooms:
        yield room, rust(ROOT / room / "src")
    yield "daemon/web", javascript(ROOT / "daemon/web")
    for source in sorted((ROOT / "coordination").glob("*/src/main/java")):
        yield str(source.parents[2].relative_to(ROOT)), java(source)


def circular(all_files):
    """Files that use each other in a circle."""
    for room, used in all_files:
        for circle in circles(used):
            yield (f"{room}: {', '.join(circle)} use each other in a circle; expected arrows in one direction: move what "
                   "both sides use to a file below them")


def drawing(rooms):
    place = {}
    for nth, row in enumerate(FLOORS):
        for column, room in enumerate(row):
            x = 60 + (WIDTH - 60) * (column + 0.5) / len(row)
            place[room] = (x, TOP + nth * ROW)
    size = f"{WIDTH} {TOP + len(FLOORS) * ROW - 30}"
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" font-family="sans-serif" font-size="14">',
             '<title>The rooms of Giusto: each uses rooms below it only</title>',
             f'<style>{STYLE}</style>',
             '<defs><marker id="a" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
             '<path d="M0 0L8 4L0 8z" style="fill:#678;stroke:none"/></marker></defs>']
    for nth, _ in enumerate(FLOORS):
        lines.append(f'<text class="floor" x="8" y="{TOP + nth * ROW + 22}">floor {len(FLOORS) - 1 - nth}</text>')
    for room, other in direct(rooms):
        (x, y), (u, v) = place[room], place[other]
        bend = (v - y - BOX_H) / 2
        curve = f"M{x:.0f} {y + BOX_H}C{x:.0f} {y + BOX_H + bend:.0f} {u:.0f} {v - bend:.0f} {u:.0f} {v - 1}"
        lines.append(f'<path d="{curve}" marker-end="url(#a)"/>')
    for room, (x, y) in place.items():
        lines.append(f'<rect x="{x - BOX_W / 2:.0f}" y="{y}" width="{BOX_W}" height="{BOX_H}" rx="5"/>')
        lines.append(f'<text x="{x:.0f}" y="{y + 23}" text-anchor="middle">{escape(room)}</text>')
    return "\n".join([*lines, "</svg>", ""])


def drawings(rooms, all_files):
    """(path, text) of each drawing."""
    yield DRAWING, drawing(rooms)
    for room, used in all_files:
        if not any(used.values()):
            continue
        used = {own.removesuffix(".rs"): {other.removesuffix(".rs") for other in others} for own, others in used.items()}
        yield ROOMS / f"{room.replace('/', '-')}.svg", layered(f"The files of {room}: each uses those below it only", used)


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    rooms = uses()
    all_files = list(files(rooms))
    wrong = list(broken(rooms)) + list(circular(all_files))
    if not wrong:
        ROOMS.mkdir(exist_ok=True)
        drawn = dict(drawings(rooms, all_files))
        gone = set(ROOMS.glob("*.svg")) - set(drawn)
        if sys.argv[1:] == ["--check"]:
            changed = [path for path, text in drawn.items() if not path.exists() or path.read_text() != text]
            wrong = [f"{path.relative_to(ROOT)} is not what the code says; expected what scripts/architecture.py draws: run it"
                     for path in sorted([*changed, *gone])]
        else:
            for path in gone:
                path.unlink()
            for path, text in drawn.items():
                path.write_text(text)
    for line in wrong:
        print(line, file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
