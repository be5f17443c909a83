"""The public surface, the laziness of the package, and the one way in which imports point."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import robusttc
import robusttc.clustering
import robusttc.transfer

PACKAGE = Path(robusttc.__file__).parent

# Lower layers first: a module may import from its own layer and from those above it in this list.
LAYERS: list[set[str]] = [
    {"_lazy", "version"},
    {"errors"},
    {"crash_points", "formatting", "params", "progress", "random"},
    {"files", "stats"},
    {"sqlite"},
    {"jobs"},
    {"data"},
    {"encoders"},
    {"models"},
    {"transfer"},
    {"clustering"},
    {"multitask", "fewshot"},
    {"assessment"},
    {"baselines"},
    {"run"},
    {"report"},
    {"serve"},
    {"cli"},
]
# Layers that must not know a layer below them all the same.
FORBIDDEN = {
    "clustering": {"data"},
    "multitask": {"fewshot"},
    "fewshot": {"multitask"},
}
HEAVY = ["torch", "pyarrow", "sklearn", "scipy", "nltk", "yaml", "rich", "typer", "ray", "fastapi", "pandas"]


def run_python(code: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    return result.stdout.strip()


def test_public_names_exist_and_are_sorted() -> None:
    assert robusttc.__all__ == sorted(robusttc.__all__)
    for name in robusttc.__all__:
        assert getattr(robusttc, name) is not None
    assert set(dir(robusttc)) == set(robusttc.__all__)


@pytest.mark.parametrize("package", [robusttc.clustering, robusttc.transfer])
def test_names_at_a_lazy_door_exist(package: ModuleType) -> None:
    for name in package.__all__:
        assert getattr(package, name) is not None
    with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'nothing'"):
        _ = package.nothing


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'lod_tasks'"):
        _ = robusttc.lod_tasks


def test_import_loads_nothing_heavy() -> None:
    loaded = run_python(f"import robusttc, sys; print([m for m in {HEAVY} if m in sys.modules])")
    assert loaded == "[]"


def test_import_takes_under_300_ms() -> None:
    # The best of five: what the import costs, not what a busy machine makes of it.
    code = "import time; start = time.perf_counter(); import robusttc; print(time.perf_counter() - start)"
    assert min(float(run_python(code)) for _ in range(5)) < 0.3


@pytest.mark.parametrize("command", [["--help"], ["inspect", "--help"]])
def test_help_loads_no_torch(command: list[str]) -> None:
    code = (
        "import sys, contextlib, io\n"
        "from robusttc.cli import main\n"
        f"with contextlib.redirect_stdout(io.StringIO()): assert main({command}) == 0\n"
        "print('torch' in sys.modules, 'pyarrow' in sys.modules)"
    )
    assert run_python(code) == "False False"


def module_layer(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def imported_modules(path: Path) -> set[str]:
    """All modules of ours that a file imports, wherever in the file it does."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module or "")
            if node.module == "robusttc":
                found |= {f"robusttc.{alias.name}" for alias in node.names}
    return {module for module in found if module.split(".")[0] == "robusttc"}


def find_wrong_imports(package: Path) -> list[str]:
    rank = {name: level for level, names in enumerate(LAYERS) for name in names}
    wrong = []
    for path in sorted(package.rglob("*.py")):
        relative = path.relative_to(package)
        own = relative.parts[0].removesuffix(".py")
        if own == "__init__":
            continue
        if own not in rank:
            wrong.append(f"{relative}: not in the list of layers")
            continue
        for module in imported_modules(path):
            layer = module_layer(module)
            if layer not in rank or rank[layer] > rank[own] or layer in FORBIDDEN.get(own, set()):
                wrong.append(f"{relative} imports {module}")
    return wrong


def test_imports_point_one_way() -> None:
    assert find_wrong_imports(PACKAGE) == []


@pytest.mark.parametrize(
    ("where", "line"),
    [
        ("data/a.py", "from robusttc.cli import main"),
        ("errors.py", "import robusttc.data.task"),
        ("clustering/a.py", "from robusttc.data import Task"),
        ("data/b.py", "def late():\n    from robusttc.encoders import cnn"),
        ("seeds.py", "from robusttc import Task"),
        ("helpers/a.py", "import os"),
    ],
)
def test_a_wrong_import_is_found(tmp_path: Path, where: str, line: str) -> None:
    path = tmp_path / where
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(line + "\n")
    assert find_wrong_imports(tmp_path)
