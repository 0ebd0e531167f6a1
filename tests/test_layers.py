"""The structure of the package: layers, small files, and imports without side effects."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

import asynctask

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "asynctask"
MAX_LINES = 300


def sources(*places: str) -> Iterator[Path]:
    """Every Python file of the project in these places."""
    for place in places:
        path = ROOT / place
        yield from [path] if path.suffix == ".py" else sorted(path.rglob("*.py"))


def fresh(code: str) -> str:
    """What a new interpreter prints that runs this code with warnings as errors."""
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_layers_hold() -> None:
    """Imports point down only; starlette, httpx and redis each have one place (pyproject.toml)."""
    command = [str(Path(sysconfig.get_path("scripts"), "lint-imports")), "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Imports point down only KEPT" in done.stdout


def test_nothing_imports_the_package_root() -> None:
    """It re-exports for users; a module that used it would import everything, itself included."""
    guilty = [
        f"{path.name}:{node.lineno}"
        for path in sources("asynctask")
        for node in ast.walk(ast.parse(path.read_text()))
        if (isinstance(node, ast.ImportFrom) and (node.module == "asynctask" or node.level))
        or (isinstance(node, ast.Import) and any(name.name == "asynctask" for name in node.names))
    ]
    assert guilty == []


def test_no_file_has_more_than_300_lines() -> None:
    """A longer one is a sign that two things live in it."""
    long = {
        str(path.relative_to(ROOT)): lines
        for path in sources("asynctask", "demo", "benchmarks", "tests", "app.py")
        if "node_modules" not in path.parts
        if (lines := len(path.read_text().splitlines())) > MAX_LINES
    }
    assert long == {}


def test_the_root_re_exports_and_nothing_else() -> None:
    """Every public name is there, documented, and listed in order; the file holds imports and the list."""
    assert list(asynctask.__all__) == sorted(asynctask.__all__)
    for name in asynctask.__all__:
        assert getattr(asynctask, name).__doc__
    body = ast.parse((PACKAGE / "__init__.py").read_text()).body
    assert {type(node) for node in body} == {ast.Expr, ast.ImportFrom, ast.Assign}
    assert (PACKAGE / "py.typed").exists()


def test_importing_the_package_brings_in_no_framework_and_no_extra() -> None:
    """Whoever triggers jobs from a script does not load starlette, nor what only an extra needs."""
    code = "import asynctask, sys; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = set(fresh(code).split())
    assert "asynctask" in loaded
    assert not loaded & {"starlette", "redis", "trio", "httpx_aiohttp", "httpx2", "pydantic", "pytest"}


def test_importing_the_package_changes_nothing() -> None:
    """No thread, no log handler, no signal handler, no filter of warnings."""
    state = (
        "(threading.active_count(), logging.getLogger().handlers, logging.getLogger().level, "
        "signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT), len(warnings.filters), "
        "sys.excepthook, asyncio.get_event_loop_policy().__class__)"
    )
    code = (
        "import asyncio, logging, signal, sys, threading, warnings, anyio, cachetools, httpx, msgspec\n"
        f"before = {state}\n"
        "import asynctask.jobs, asynctask.testing, asynctask.remote\n"
        f"print(before == {state})"
    )
    assert fresh(code).strip() == "True"


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: path.stem)
def test_every_module_says_what_it_is(path: Path) -> None:
    """And can be imported by itself, the extras' modules where these are installed."""
    module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    assert module.__doc__
