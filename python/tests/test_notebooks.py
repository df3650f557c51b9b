"""Notebooks run from top to bottom, are kept without output, and redraw what they say in few lines."""

import json
import re

import nbclient
import nbformat
import pytest
from conftest import ROOT

NOTEBOOKS = sorted((ROOT / "python/notebooks").glob("*.ipynb"))


DRAWS = re.compile(r"\bplot\.(?!style)\w+\(|\bpyplot\.(subplots|figure|plot)\(")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_what_it_draws(path, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")  # as in a notebook that people open
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert not cell.outputs and cell.execution_count is None, "outputs are not kept"
            assert len(cell.source.splitlines()) <= 30
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute(cwd=str(path.parent))
    for cell in notebook.cells:
        if cell.cell_type == "code" and DRAWS.search(cell.source):
            assert any("image/png" in output.get("data", {}) for output in cell.outputs), cell.source


def test_there_is_one_for_each_system():
    assert len(NOTEBOOKS) >= 8
    for path in NOTEBOOKS:
        assert json.loads(path.read_text())["nbformat"] == 4
