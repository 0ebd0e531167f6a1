"""Fixtures of the browser tests: a Chromium, a server process, a tenant for each test, pages with a probe."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, sync_playwright

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--host-resolver-rules=MAP *.test 127.0.0.1",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker("browser")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Have what is missing said once, not once for each test that is skipped for it."""
    report = yield
    if report.skipped and isinstance(report.longrepr, tuple):
        report.longrepr = (__file__, 1, report.longrepr[2])
    return report


def need(program: str, advice: str, *others: str) -> str:
    """The path of a program that a test cannot do without; the test is skipped where there is none."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"])
    found = next((hit for name in (program, *others) if (hit := shutil.which(name, path=path))), None)
    if found is None:
        pytest.skip(advice)  # where nothing may be skipped, tests/conftest.py makes a failure of it
    return found


@pytest.fixture(scope="package")  # until it is stopped, Playwright runs a loop in which no other test can
def browser() -> Iterator[Browser]:
    """Debian's Chromium, headless."""
    advice = "the browser tests need Chromium: apt install chromium (or set ASYNCTASK_CHROMIUM=/its/path)"
    path = os.environ.get("ASYNCTASK_CHROMIUM") or need("chromium", advice, "chromium-browser")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=ARGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def modules() -> Path:
    """tests/browser/node_modules as the lock file says."""
    folder = HERE / "node_modules"
    stamp = folder / ".package-lock.json"
    if not stamp.exists() or stamp.stat().st_mtime < (HERE / "package-lock.json").stat().st_mtime:
        npm = need("npm", "the browser tests need Node.js with npm: apt install nodejs npm")
        subprocess.run([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=HERE, check=True)
    return folder


class Server:
    """`tests.browser.server` as a process of its own, on a port that it keeps when it is started again."""

    def __init__(self) -> None:
        self.port = 0
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.browser.server", "--port", str(self.port)]
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())
        self.url = f"http://127.0.0.1:{self.port}"

    def kill(self) -> None:
        """End it at once, as a crash would."""
        self.process.kill()
        self.process.communicate()


@pytest.fixture(scope="package")
def server(browser: Browser) -> Iterator[Server]:
    """The server that most tests share; each is a tenant of its own there."""
    running = Server()
    yield running
    running.kill()


class Desk:
    """Drives the jobs of one tenant, and reads what was asked of the server on its behalf."""

    def __init__(self, url: str, tenant: str | None = None) -> None:
        self.tenant = tenant or f"t{uuid4().hex[:12]}"
        self.url = url
        self._http = httpx.Client(base_url=url, timeout=15)

    def say(self, **orders: Any) -> str | None:
        """Have it done; see `tests.browser.server.control`. Returns the run id."""
        answer = self._http.post(f"/control/{self.tenant}", json=orders)
        answer.raise_for_status()
        run_id: str | None = answer.json()["runId"]
        return run_id

    @property
    def run_id(self) -> str:
        """Of the run that is under way, or was last."""
        run_id = self.say()
        assert run_id is not None
        return run_id

    def log(self, *, seen: int = 0, done: int = 0) -> list[dict[str, Any]]:
        """The requests so far, as soon as there are `seen` of them, and `done` that were answered."""
        answer = self._http.get(f"/control/{self.tenant}", params={"seen": seen, "done": done})
        answer.raise_for_status()
        entries: list[dict[str, Any]] = answer.json()
        assert len(entries) >= max(seen, done), f"after 10 s the server has seen only {entries}"
        return entries

    def count(self, method: str = "GET") -> int:
        """How many requests with this method there were."""
        return sum(entry["method"] == method for entry in self.log())

    def close(self) -> None:
        self._http.close()


@pytest.fixture
def desk(server: Server) -> Iterator[Desk]:
    """A tenant that no other test has."""
    made = Desk(server.url)
    yield made
    made.close()


Opener = Callable[..., Page]


class Pages:
    """Opens pages as a tenant, each watched for errors."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._contexts: list[BrowserContext] = []
        self.errors: list[str] = []
        self.failures_expected = False

    def context(self, desk: Desk | None, **options: Any) -> BrowserContext:
        """Another visitor of the same tenant; None is nobody's."""
        context = self._browser.new_context(**options)
        self._contexts.append(context)
        if desk is not None:
            context.add_cookies([{"name": "tenant", "value": desk.tenant, "url": desk.url}])
        return context

    def open(self, context: BrowserContext, url: str, *, clock: bool = False) -> Page:
        """A page with the probe; with `clock` its time stands still until it is moved."""
        page = context.new_page()
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.errors.append(f"{error}"))
        if clock:
            page.clock.install(time=0)
            page.clock.pause_at(1000)
        page.add_init_script(path=HERE / "probe.js")
        page.goto(url)
        return page

    def _heard(self, message: ConsoleMessage) -> None:
        # The browser itself reports answers from 400 up and broken lines; who makes some expects them.
        if message.type in ("error", "warning") and not (
            self.failures_expected and message.text.startswith("Failed to load resource")
        ):
            self.errors.append(message.text)

    def close(self) -> None:
        for context in self._contexts:
            context.close()


@pytest.fixture
def pages(browser: Browser) -> Iterator[Pages]:
    """Pages of this test; an error on any of their consoles fails it."""
    made = Pages(browser)
    yield made
    made.close()
    assert made.errors == []


@pytest.fixture
def visit(pages: Pages, desk: Desk) -> Opener:
    """Opens the test page as this test's tenant: `visit("?n=3", clock=True)`."""

    def opened(query: str = "", *, clock: bool = False, **options: Any) -> Page:
        return pages.open(pages.context(desk, **options), f"{desk.url}/page{query}", clock=clock)

    return opened


def settled(page: Page) -> None:
    """Wait until the page has dealt with every answer."""
    page.evaluate("probe.quiet()")


def tick(page: Page, milliseconds: int) -> None:
    """Move the page's clock, then let it deal with what that set off."""
    page.clock.run_for(milliseconds)
    settled(page)


def kinds(page: Page) -> list[str]:
    """The types of the element's events so far, in their order."""
    return [kind for kind, _ in page.evaluate("probe.events")]
