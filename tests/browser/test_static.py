"""The files themselves: small, typed, without what a strict policy or the one-poller law forbids."""

from __future__ import annotations

import gzip
import re
import subprocess
from pathlib import Path

import pytest

from tests.browser.conftest import HERE, ROOT

STATIC = ROOT / "static"
SCRIPTS = ["asynctask.js", "react.js", "demo.js"]


def code(name: str) -> str:
    """A script without its comments."""
    text = (STATIC / name).read_text("utf-8")
    return re.sub(r"/\*.*?\*/|(?<!:)//[^\n]*", "", text, flags=re.DOTALL)


def test_size() -> None:
    """asynctask.js is under 12 KB gzipped as it stands."""
    assert len(gzip.compress((STATIC / "asynctask.js").read_bytes(), 9)) < 12_000


def test_types(modules: Path) -> None:
    """`tsc --checkJs --strict` has nothing to say."""
    done = subprocess.run([modules / ".bin" / "tsc", "-p", HERE], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("name", SCRIPTS)
def test_nothing_that_is_not_allowed(name: str) -> None:
    """No setInterval, no markup from strings, no evaluation of strings, no style attributes."""
    for word in (
        "setInterval",
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "cssText",
    ):
        assert word not in code(name)
    assert not re.search(r"setAttribute\(\s*['\"]style", code(name))


def test_no_dependencies() -> None:
    """asynctask.js imports nothing; react.js nothing but React and asynctask.js."""
    imports = re.compile(r"^import .* from \"(.*)\";$", re.MULTILINE)
    assert imports.findall(code("asynctask.js")) == []
    assert imports.findall(code("react.js")) == ["react", "./asynctask.js"]


def test_nothing_inline_on_the_page() -> None:
    """index.html has no inline script, style or handler, and loads nothing from elsewhere."""
    page = (STATIC / "index.html").read_text("utf-8")
    assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", page)
    assert re.findall(r"<script(?![^>]*\ssrc=)", page) == []
    assert not re.search(r"(src|href)=\"(https?:)?//", page)
    assert not re.search(r"@import|url\(\s*['\"]?(https?:)?//", (STATIC / "demo.css").read_text("utf-8"))


def test_lock_file_names_no_registry() -> None:
    """Whoever installs the test packages does so from the registry of their own."""
    lock = (HERE / "package-lock.json").read_text("utf-8")
    assert "://" not in re.sub(r"\"(funding|url)\":[^\n]*", "", lock)


def test_files_that_are_shipped() -> None:
    """What the tests build lies outside of `static/`, which goes into the wheel."""
    names = {path.name for path in STATIC.iterdir()}
    assert names == {"asynctask.js", "react.js", "index.html", "demo.css", "demo.js", "icon.svg"}
