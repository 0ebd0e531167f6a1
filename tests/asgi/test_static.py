"""The front-end files are served from a checkout and from an installed wheel."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

import asynctask.asgi.static
from asynctask import ConfigurationError
from asynctask.asgi import static_files

CHECKOUT = Path(__file__).resolve().parents[2]
FILES = ("asynctask.js", "react.js")

SERVE = """
import sys
from pathlib import Path
import asynctask
from asynctask.asgi import static_files
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

place = Path(asynctask.__file__).resolve()
assert place.is_relative_to(sys.argv[1]), place
client = TestClient(Starlette(routes=[Mount("/static", static_files())]))
for name in sys.argv[2:]:
    answer = client.get(f"/static/{name}")
    assert answer.status_code == 200, answer
    print(len(answer.content), answer.headers["content-type"])
"""


@pytest.fixture
def client() -> TestClient:
    """An application that serves the files as the documentation says."""
    return TestClient(Starlette(routes=[Mount("/static/asynctask", static_files())]))


@pytest.mark.parametrize("name", FILES)
def test_the_modules_are_served_from_a_checkout(client: TestClient, name: str) -> None:
    """Byte by byte, as JavaScript: browsers refuse modules of another type."""
    answer = client.get(f"/static/asynctask/{name}")
    assert answer.status_code == 200
    assert answer.content == (CHECKOUT / "static" / name).read_bytes()
    assert answer.headers["content-type"].partition(";")[0] in ("text/javascript", "application/javascript")


def test_the_files_can_be_revalidated(client: TestClient) -> None:
    """A browser that has the file already gets a 304."""
    first = client.get("/static/asynctask/asynctask.js")
    again = client.get("/static/asynctask/asynctask.js", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    "path", ["nothing.js", "../pyproject.toml", "..%2Fpyproject.toml", "%2e%2e/pyproject.toml"]
)
def test_nothing_else_is_served(client: TestClient, path: str) -> None:
    """No file outside the folder can be reached."""
    assert client.get(f"/static/asynctask/{path}").status_code == 404


def test_the_files_travel_in_the_wheel(tmp_path: Path) -> None:
    """A built wheel, unpacked where no checkout is near, serves the same bytes."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=CHECKOUT, check=True, capture_output=True, timeout=100)
    (wheel,) = tmp_path.glob("*.whl")
    installed = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(installed)
    served = subprocess.run(
        [sys.executable, "-c", SERVE, str(installed), *FILES],
        cwd=tmp_path,
        env={"PYTHONPATH": str(installed)},
        check=True,
        capture_output=True,
        text=True,
        timeout=100,
    )
    sizes = [int(line.split()[0]) for line in served.stdout.splitlines()]
    assert sizes == [(CHECKOUT / "static" / name).stat().st_size for name in FILES]


def test_an_installation_without_the_files_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a 404 in production, but an error at start that says what to do."""
    monkeypatch.setattr(asynctask.asgi.static, "__file__", str(tmp_path / "asynctask" / "asgi" / "static.py"))
    with pytest.raises(ConfigurationError, match="install it from a wheel"):
        static_files()
