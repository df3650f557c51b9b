"""Every file that crosses a language or a release keeps to its schema in formats/."""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import jsonschema

ROOT = Path(__file__).resolve().parent.parent
GIUSTO = str(ROOT / "target" / "release" / "giusto")


def output(*args):
    return json.loads(subprocess.run([GIUSTO, *args], cwd=ROOT, check=True, capture_output=True, text=True).stdout)


def main():
    with tempfile.TemporaryDirectory() as folder:
        plan = Path(folder) / "plan.json"
        subprocess.run([GIUSTO, "plan", "sites/walk.yaml", "--out", str(plan)], cwd=ROOT, check=True, capture_output=True)
        tasks = ["--task", "40ms/250ms+150ms", "--task", "200ms/500ms+100ms"]
        documents = [
            ("plan", json.loads(plan.read_text())),
            ("plan", output("plan", "sites/walk.yaml", "--json")),
            ("plan", json.loads((ROOT / "formats/goldens/plan.json").read_text())),
            ("share", output("analyze", "share", *tasks, "--json")),
            ("share", json.loads((ROOT / "formats/goldens/share.json").read_text())),
            ("simulate", output("simulate", "sites/walk.yaml", "--for", "1s", "--json")),
        ]
    for name, document in documents:
        schema = json.loads((ROOT / f"formats/{name}.schema.json").read_text())
        jsonschema.Draft202012Validator.check_schema(schema)
        jsonschema.validate(document, schema, cls=jsonschema.Draft202012Validator)
    # A schema that accepts anything proves nothing: an unknown key must be refused.
    schema = json.loads((ROOT / "formats/plan.schema.json").read_text())
    wrong = dict(documents[0][1], surprise=1)
    if jsonschema.Draft202012Validator(schema).is_valid(wrong):
        sys.exit("plan.schema.json accepts an unknown key")
    print(f"{len(documents) + 1} passed, 0 failed")


main()
