"""Examples in documentation are true."""

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest
from conftest import ROOT

import giusto

NAMES = [name for _, name, _ in pkgutil.walk_packages(giusto.__path__, "giusto.") if not name.endswith("_giusto")]


@pytest.mark.parametrize("name", ["giusto", *NAMES])
def test_examples_of(name):
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert not failed


@pytest.mark.parametrize("page", [ROOT / "docs/python.md", ROOT / "python/README.md"])
def test_examples_on_the_page(page, monkeypatch):
    # Blocks of one page build on each other.
    monkeypatch.chdir(ROOT)
    blocks = re.findall(r"```python\n(.*?)```", Path(page).read_text(), re.DOTALL)
    text = "\n".join(block for block in blocks if block.startswith(">>>"))
    test = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    runner = doctest.DocTestRunner()
    runner.run(test)
    assert runner.tries and not runner.failures


def test_every_public_function_says_what_it_is():
    for name in ("giusto", *NAMES):
        module = importlib.import_module(name)
        for each in getattr(module, "__all__", []):
            value = getattr(module, each)
            if callable(value):
                assert value.__doc__, f"{name}.{each}"
