"""`.ci/run` and the browser that it installs, with stand-ins for the programs that it calls."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NEEDED = ("bash", "dirname", "env", "chmod", "ln", "touch")


class Machine:
    """A PATH that has only what it is given; every stand-in writes down how it was called."""

    def __init__(self, folder: Path) -> None:
        self.programs = folder / "bin"
        self.log = folder / "log"
        self.programs.mkdir()
        for name in NEEDED:
            (self.programs / name).symlink_to(str(shutil.which(name)))

    def add(self, name: str, *, does: str = "") -> None:
        """Add a stand-in."""
        script = self.programs / name
        script.write_text(f'#!/bin/bash\necho "{name} $*" >> "{self.log}"\n{does}\n')
        script.chmod(0o755)

    def add_apt(self, *, installs: bool = True, code: int = 0) -> None:
        """Add an apt-get that puts both programs into place."""
        place = " ".join(f'"{self.programs / name}"' for name in ("chromium", "chromedriver"))
        install = f'if [ "$1" = install ]; then touch {place}; chmod +x {place}; fi' if installs else ""
        self.add("apt-get", does=f"{install}\nexit {code}")

    def run(self, script: str, *, root: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a script as root, or not."""
        self.add("id", does=f"echo {0 if root else 1000}")
        self.log.unlink(missing_ok=True)
        environment = {"PATH": str(self.programs), "HOME": os.environ.get("HOME", "/")}
        return subprocess.run([ROOT / script], env=environment, capture_output=True, text=True, timeout=60)

    @property
    def calls(self) -> list[str]:
        """What was called, but for questions about the user."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [line for line in lines if not line.startswith("id ")]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


INSTALL = "apt-get install --quiet --yes --no-install-recommends chromium chromium-driver"


def test_a_browser_that_is_there_is_not_installed(machine: Machine) -> None:
    for name in ("chromium", "chromedriver"):
        machine.add(name)
    machine.add_apt(code=1)
    assert machine.run(".ci/install-browser").returncode == 0
    assert machine.calls == []


@pytest.mark.parametrize("there", [(), ("chromium",), ("chromedriver",)])
def test_root_installs_what_is_missing(there: tuple[str, ...], machine: Machine) -> None:
    for name in there:
        machine.add(name)
    machine.add_apt()
    done = machine.run(".ci/install-browser")
    assert done.returncode == 0, done.stderr
    assert machine.calls == ["apt-get update --quiet", INSTALL]


def test_others_install_by_sudo_without_a_question(machine: Machine) -> None:
    machine.add_apt()
    machine.add("sudo", does='[ "$1" = --non-interactive ] && shift && exec "$@"')
    done = machine.run(".ci/install-browser", root=False)
    assert done.returncode == 0, done.stderr
    assert machine.calls == [
        "sudo --non-interactive apt-get update --quiet",
        "apt-get update --quiet",
        f"sudo --non-interactive env DEBIAN_FRONTEND=noninteractive {INSTALL}",
        INSTALL,
    ]


@pytest.mark.parametrize(
    ("apt", "root", "why"),
    [
        (None, True, "there is no apt-get"),
        ({}, False, "this is not root, and there is no sudo"),
        ({"code": 100}, True, "apt-get update failed"),
        ({"installs": False}, True, "apt-get installed something else"),
    ],
)
def test_it_says_why_it_cannot(apt: dict[str, int] | None, root: bool, why: str, machine: Machine) -> None:
    if apt is not None:
        machine.add_apt(installs=bool(apt.get("installs", True)), code=apt.get("code", 0))
    done = machine.run(".ci/install-browser", root=root)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"The tests of the report need Chromium, and it cannot be installed: {why}.",
        "Install it yourself: chromium and chromedriver must be on the PATH "
        "(Debian: chromium chromium-driver).",
    ]


def test_all_of_it_is_run_and_a_failure_ends_it(machine: Machine) -> None:
    machine.add_apt()
    machine.add("make")
    assert machine.run(".ci/run").returncode == 0
    expected = ["make check", "make wheel", "make test", "make test-browser"]
    assert machine.calls[-4:] == expected
    machine.add("make", does='[ "$1" != wheel ]')
    assert machine.run(".ci/run").returncode != 0
    assert machine.calls == expected[:2]


def test_make_leaves_the_browser_out_loudly_and_has_a_target_for_it() -> None:
    def recipe(target: str) -> str:
        command = ["make", "--dry-run", "--assume-old=.venv/installed-dev", target]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
        return done.stdout

    assert '-m "not slow and not browser"' in recipe("test")
    assert "LEFT OUT" in recipe("test")
    assert "make test-browser" in recipe("test")
    assert "pytest -m browser" in recipe("test-browser")
    assert "install chromium and chromedriver first" in recipe("test-browser")
    # By the order of tests/conftest.py, which xdist would otherwise replace by its own.
    assert "--no-loadscope-reorder" in recipe("test")


def test_the_files_that_are_begun_first_are_there() -> None:
    named = re.findall(r'^    "(test_\w+\.py)",$', (ROOT / "tests" / "conftest.py").read_text(), re.MULTILINE)
    assert len(named) > 5
    there = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    assert [name for name in named if name not in there] == []
