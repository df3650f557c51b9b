"""What every file of the repository keeps: rooms have a README, links in documents lead somewhere, lines and files are not
longer than a reader can hold, and documents speak English that the field knows.
"""
import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CODE = (".rs", ".py", ".go", ".sh", ".c", ".h", ".java")
LONGEST_LINE, LONGEST_FILE = 170, 600  # aim at 120, without what is in quotes, and at 400
LINK = re.compile(r"\]\(([^)\s]+)\)")
# Words of the project's own that a reader has to guess.
PRIVATE = re.compile(r"(?<!-u )\b(nobody|somebody|everybody|whoever|what was seen|proven by play|is none any more)\b", re.I)
QUOTED = re.compile(r'r#".*?"#|"(?:\\.|[^"\\])*"|`[^`]*`|\'[^\']*\'')
# Records of their time, and tables that tests print.
AS_IT_IS = ("CHANGELOG.md", "docs/decisions/", "policy/README.md")


def tracked():
    return subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()


def rooms(files):
    for name in files:
        if Path(name).name in ("Cargo.toml", "go.mod", "pom.xml") and name.count("/") == 1:
            yield Path(name).parent


def tests_in(path):
    """Classes of tests in a file, its own and those that it takes from files beside it."""
    for node in ast.parse(path.read_text()).body:
        bases = {ast.unparse(base) for base in node.bases} if isinstance(node, ast.ClassDef) and node.name != "Patient" else set()
        if bases & {"unittest.TestCase", "Patient"}:
            yield node.name
        beside = path.with_name(f"{node.module}.py") if isinstance(node, ast.ImportFrom) else path
        if beside != path and beside.is_file():
            yield from set(tests_in(beside)) & {alias.name for alias in node.names}


def forgotten():
    """`make test` runs some files by their classes, in several parts: it has to name all of them."""
    text = (ROOT / "tests/run.sh").read_text().replace("\\\n", " ")
    for name in ("e2e.py", "doctor.py"):
        named = {word for words in re.findall(rf"tests/{re.escape(name)} (.*)", text) for word in words.split()}
        for one in sorted(set(tests_in(ROOT / "tests" / name)) ^ named):
            yield f"tests/run.sh: {name} {one}: a class of tests that is not there, or that no part runs"


def findings():
    yield from forgotten()
    files = tracked()
    for room in sorted(set(rooms(files))):
        if f"{room}/README.md" not in files:
            yield f"{room}: a README.md is missing: what the room is for, where what is, how it is tested"
    for name in files:
        path = ROOT / name
        if path.suffix not in (".md", *CODE) or not path.is_file():
            continue
        lines = path.read_text(errors="replace").splitlines()
        if path.suffix in CODE:
            if len(lines) > LONGEST_FILE:
                yield f"{name}: {len(lines)} lines; {LONGEST_FILE} at most: one idea a file"
            for number, line in enumerate(lines, 1):
                if len(line) > LONGEST_LINE and len(QUOTED.sub('""', line)) > LONGEST_LINE:
                    yield f"{name}:{number}: {len(line)} columns; {LONGEST_LINE} at most"
            continue
        for number, line in enumerate(lines, 1):
            for link in LINK.findall(re.sub(r"`[^`]*`", "", line)):
                target = link.split("#")[0]
                if target and not re.match(r"[a-z]+:", target) and not (path.parent / target).exists():
                    yield f"{name}:{number}: a link to {link}, which is not there"
            if not name.startswith(AS_IT_IS) and (found := PRIVATE.search(line)):
                yield f"{name}:{number}: '{found[0]}': say who or what"


def main():
    found = list(findings())
    for one in found:
        print(one, file=sys.stderr)
    print(f"tidy: {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
