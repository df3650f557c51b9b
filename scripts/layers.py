"""Draws who uses whom, in layers from the top down."""
from html import escape

STYLE = ("text{fill:#222}.floor{fill:#777;font-size:12px}rect{fill:#eef3f8;stroke:#345}"
         "path{fill:none;stroke:#345;stroke-opacity:.55}"
         "@media(prefers-color-scheme:dark){text{fill:#ddd}.floor{fill:#999}"
         "rect{fill:#223;stroke:#9bd}path{stroke:#9bd}}")
LETTER, GAP, ROW, MARGIN = 6.7, 16, 64, 14


def direct(uses):
    """The uses that do not follow from others: all of them in one picture would hide the order. Without circles."""
    reached = {}

    def reach(own):
        if own not in reached:
            reached[own] = set(uses[own]).union(*map(reach, uses[own]))
        return reached[own]

    for own in sorted(uses):
        for other in sorted(uses[own]):
            if not any(other in reach(between) for between in uses[own] if between != other):
                yield own, other


def ranks(uses):
    """How far below the topmost each is: one below the lowest that uses it."""
    users = {own: [other for other in uses if own in uses[other]] for own in uses}
    found = {}

    def rank(own):
        if own not in found:
            found[own] = max((rank(user) + 1 for user in users[own]), default=0)
        return found[own]

    for own in uses:
        rank(own)
    # What is used by none belongs just above what it uses.
    for own in uses:
        if not users[own] and uses[own]:
            found[own] = min(found[other] for other in uses[own]) - 1
    return found


def layered(title, uses):
    """An SVG of all, each above those that it uses."""
    uses = {own: used for own, used in uses.items() if used or any(own in others for others in uses.values())}
    rank = ranks(uses)
    arrows = list(direct(uses))
    rows = [sorted(own for own in uses if rank[own] == nth) for nth in range(max(rank.values(), default=-1) + 1)]
    wide = {own: LETTER * len(own) + 12 for own in uses}
    width = max([420, *(sum(wide[own] + GAP for own in row) for row in rows)]) + 2 * MARGIN
    x = {}

    def place():
        for row in rows:
            free = (width - 2 * MARGIN - sum(wide[own] for own in row)) / (len(row) + 1)
            at = MARGIN + free
            for own in row:
                x[own] = at + wide[own] / 2
                at += wide[own] + free

    place()
    # Each row in the order of the middle of what it is joined to: fewer arrows cross.
    for turn in range(8):
        for row in rows[1:] if turn % 2 == 0 else rows[-2::-1]:
            joined = {own: [x[two if own == one else one] for one, two in arrows if own in (one, two)] for own in row}
            row.sort(key=lambda own: (sum(joined[own]) / len(joined[own]) if joined[own] else x[own], own))
            place()
    y = {own: MARGIN + rank[own] * ROW for own in uses}
    high = MARGIN * 2 + 24 + ROW * max(len(rows) - 1, 0)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" viewBox="0 0 {width:.0f} {high}" '
             'font-family="sans-serif" font-size="12">',
             f'<title>{escape(title)}</title>', f'<style>{STYLE}</style>']
    for one, two in arrows:
        lines.append(f'<path d="M{x[one]:.0f} {y[one] + 24}L{x[two]:.0f} {y[two]}"/>')
    for own in sorted(uses):
        lines.append(f'<rect x="{x[own] - wide[own] / 2:.0f}" y="{y[own]}" width="{wide[own]:.0f}" height="24" rx="4"/>'
                     f'<text x="{x[own]:.0f}" y="{y[own] + 16}" text-anchor="middle">{escape(own)}</text>')
    return "\n".join([*lines, "</svg>", ""])
