"""Which files of a room use which, and which of them use each other in a circle: in Rust from their `use` and their paths,
in Java from the names of classes, in JavaScript from their imports. Packages of Go cannot use each other in a circle.

A `mod` declaration is no use, and passing a name on (`pub use`) is one only where the file itself uses that name. Tests
are left out.
"""
import re
from pathlib import Path

TOKEN = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])'", re.S)
USE = re.compile(r"^[ \t]*(pub(?:\([^)]*\))? )?use ((?:crate|super|self|[a-z_]\w*)\b[^;]*);", re.M)
PATH = re.compile(r"(?<![\w:])((?:crate|super|self)(?:::\w+)+|[a-z_]\w*(?:::\w+)+)")


def code(text):
    """Without comments, strings and tests."""
    text = TOKEN.sub(lambda m: '""' if m.group()[0] == '"' else " ", text)
    return re.split(r"#\[cfg\(test\)\]\s*(?:pub(?:\([^)]*\))? )?mod \w+ \{", text)[0]


def leaves(tree):
    """`a::{b, c::{d, self}}` as [a, b], [a, c, d], [a, c]; a name that is given another one keeps its own."""
    tree = tree.strip()
    if "{" not in tree:
        yield [part.strip() for part in tree.split(" as ")[0].split("::")]
        return
    head, rest = tree.split("{", 1)
    head = [part for part in head.strip().split("::") if part]
    depth, item = 0, ""
    for char in rest.rsplit("}", 1)[0] + ",":
        depth += {"{": 1, "}": -1}.get(char, 0)
        if char == "," and depth == 0:
            for leaf in leaves(item) if item.strip() else ():
                yield head + [part for part in leaf if part != "self"]
            item = ""
        else:
            item += char


class Room:
    def __init__(self, source):
        self.source = source
        self.files, self.parent = {}, {}
        root = next((source / name for name in ("lib.rs", "main.rs") if (source / name).exists()), None)
        if root:
            self.load((), root)

    def load(self, module, path):
        text = code(path.read_text())
        self.files[module] = (path, text)
        folder = path.parent if path.name in ("lib.rs", "main.rs", "mod.rs") else path.with_suffix("")
        tests = set(re.findall(r"#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*mod (\w+);", text))
        for name in re.findall(r"^[ \t]*(?:pub(?:\([^)]*\))? )?mod (\w+);", text, re.M):
            places = [folder / f"{name}.rs", folder / name / "mod.rs"]
            place = next((place for place in places if place.exists()), None)
            if place and name not in tests:
                self.load((*module, name), place)

    def passed_on(self, module):
        """Names that a module has from others, and from where."""
        names = {}
        for _, tree in USE.findall(self.files[module][1]):
            for leaf in leaves(tree):
                names.setdefault(leaf[-1], leaf)
        return names

    def found(self, module, parts, seen=()):
        """The module in which what `parts` names, read in `module`, is written down; None: it is of another crate."""
        at, rest = None, list(parts)
        if rest[0] == "crate":
            at, rest = (), rest[1:]
        elif rest[0] in ("self", "super"):
            at = module
            while rest and rest[0] in ("self", "super"):
                at, rest = (at[:-1] if rest[0] == "super" else at), rest[1:]
        elif (*module, rest[0]) in self.files:
            at = module
        if at is None:
            return None
        while rest and (*at, rest[0]) in self.files:
            at, rest = (*at, rest[0]), rest[1:]
        if rest and (at, rest[0]) not in seen:
            onward = self.passed_on(at).get(rest[0])
            if onward:
                return self.found(at, onward, (*seen, (at, rest[0]))) or at
        return at

    def arrows(self):
        uses = {}
        for module, (_, text) in self.files.items():
            body = re.sub(r"\bmod \w+;", "", USE.sub("", text))
            wanted, local = [], {}
            for public, tree in USE.findall(text):
                for leaf in leaves(tree):
                    local[leaf[-1]] = leaf
                    if not public or re.search(rf"\b{leaf[-1]}\b", body):
                        wanted.append(leaf)
            for path in PATH.findall(body):
                parts = path.split("::")
                # `modes::admit(…)` after `use crate::modes`.
                wanted.append(local[parts[0]] + parts[1:] if parts[0] in local else parts)
            found = {self.found(module, parts) for parts in wanted if parts[-1] != "*"}
            uses[module] = found - {None, module}
        return uses


def rust(source):
    """The uses of each file of a crate, by their names from `source` on."""
    room = Room(source)
    name = {module: str(path.relative_to(source)) for module, (path, _) in room.files.items()}
    return {name[module]: {name[other] for other in used} for module, used in room.arrows().items()}


def java(source):
    """The same of a folder of Java, where a class is known by its name alone."""
    files = {path.stem: path for path in source.rglob("*.java")}
    uses = {}
    for own, path in files.items():
        named = set(re.findall(r"\b[A-Z]\w*\b", TOKEN.sub(" ", path.read_text())))
        uses[own] = {other for other in named if other in files and other != own}
    return uses


def javascript(source):
    """The same of a folder of modules."""
    uses = {}
    for path in source.glob("*.js"):
        uses[path.stem] = set(re.findall(r"from '(\w+)'", path.read_text()))
    return {own: used & set(uses) for own, used in uses.items()}


def circles(uses):
    """Sets of two and more that use each other. O(files · uses)."""

    def reach(start):
        seen, open_ = set(), list(uses[start])
        while open_:
            module = open_.pop()
            if module not in seen:
                seen.add(module)
                open_.extend(uses[module])
        return seen

    reached = {module: reach(module) for module in uses}
    groups = {frozenset(other for other in reached[module] if module in reached[other])
              for module in uses if module in reached[module]}
    return sorted(map(sorted, groups))
