"""Every snippet of the documentation runs."""

from __future__ import annotations

import doctest
import importlib
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import robusttc

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def snippets() -> list[tuple[str, str, str]]:
    found = []
    for page in PAGES:
        for number, (language, code) in enumerate(FENCE.findall(page.read_text(encoding="utf-8")), start=1):
            found.append((f"{page.relative_to(ROOT)}#{number}", language, code))
    return found


SNIPPETS = snippets()


def test_snippets_are_found() -> None:
    places = [place for place, _, _ in SNIPPETS]
    assert "README.md#1" in places
    assert {language for _, language, _ in SNIPPETS} <= {"sh", "python"}, "a snippet that no test would run"


@pytest.mark.parametrize(
    ("language", "code"),
    [(language, code) for _, language, code in SNIPPETS],
    ids=[place for place, _, _ in SNIPPETS],
)
def test_snippet_runs(language: str, code: str, tmp_path: Path) -> None:
    if language == "sh" and all(line.startswith("make ") for line in code.strip().splitlines()):
        # What make runs is this very suite; that each target exists is what can be checked from inside.
        targets = [line.split("#")[0].split()[1] for line in code.strip().splitlines()]
        subprocess.run(["make", "--dry-run", *targets], cwd=ROOT, check=True, capture_output=True)
        return
    command = ["bash", "-euo", "pipefail", "-c", code] if language == "sh" else [sys.executable, "-c", code]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    result = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in LINK.findall(page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_readme_python_example_is_short() -> None:
    code = next(
        code for place, language, code in SNIPPETS if place.startswith("README") and language == "python"
    )
    assert len([line for line in code.splitlines() if line.strip()]) <= 10


def module_names() -> list[str]:
    return [module.name for module in pkgutil.walk_packages(robusttc.__path__, "robusttc.")]


@pytest.mark.parametrize("name", ["robusttc", *module_names()])
def test_docstring_examples(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
