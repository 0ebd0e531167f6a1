"""`useAsyncTask` with React 18 and 19, in StrictMode, with Ant Design as the specification names it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import HERE, Desk, Pages, settled, tick


@pytest.fixture(scope="session")
def bundles(modules: Path) -> None:
    """The page, built with each React; development builds, since StrictMode mounts twice in them alone."""
    for version, suffix in ((18, "-18"), (19, "")):
        aliases = [f"--alias:{name}={modules / name}{suffix}" for name in ("react", "react-dom")]
        subprocess.run(
            [
                modules / ".bin" / "esbuild",
                "react_page.jsx",
                "--bundle",
                "--format=esm",
                "--jsx=automatic",
                '--define:process.env.NODE_ENV="development"',
                "--log-level=error",
                f"--outfile=build/react-{version}.js",
                *aliases,
            ],
            cwd=HERE,
            check=True,
        )


@pytest.fixture(params=[18, 19])
def visit(request: pytest.FixtureRequest, bundles: None, pages: Pages, desk: Desk) -> Callable[..., Page]:
    """Opens the React page."""

    def opened(query: str = "", *, clock: bool = True) -> Page:
        page = pages.open(pages.context(desk), f"{desk.url}/react/{request.param}{query}", clock=clock)
        expect(page.get_by_role("button").first).to_be_visible()
        assert page.evaluate("document.querySelectorAll('.ant-btn').length") >= 1
        return page

    return opened


def test_the_specification_s_front_end(visit: Callable[..., Page], desk: Desk) -> None:
    """Button loading and disabled with "回填中 N%", alert with processed / total, message, one reload."""
    page = visit()
    button = page.get_by_role("button")
    settled(page)
    expect(button).to_have_text("回 填")  # Ant Design spaces two characters
    button.click()
    settled(page)
    expect(button).to_be_disabled()
    desk.say(total=6000, advance=2520)
    tick(page, 7_000)
    expect(button).to_have_text("回填中 42%")
    expect(button).to_have_class(re.compile("ant-btn-loading"))
    expect(page.get_by_role("alert")).to_contain_text("2520 / 6000")
    expect(page.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "42")
    desk.say(finish=True)
    tick(page, 7_000)
    expect(page.get_by_text("回填完成")).to_be_visible()
    expect(button).to_be_enabled()
    seen = page.evaluate("seen")
    assert (seen["loads"], seen["success"], seen["error"]) == (1, 1, 0)


def test_failure_passes_the_reason_through(visit: Callable[..., Page], desk: Desk) -> None:
    """FAILED shows the reason in the message."""
    desk.say(trigger="backfill")
    page = visit()
    settled(page)
    desk.say(fail="remote API said 503")
    tick(page, 7_000)
    expect(page.get_by_text("remote API said 503")).to_be_visible()
    seen = page.evaluate("seen")
    assert (seen["loads"], seen["success"], seen["error"]) == (1, 0, 1)


def test_two_clicks_in_one_task(visit: Callable[..., Page], desk: Desk) -> None:
    """Ant Design sets `loading` in an effect (ant-design#51325); two clicks are one POST all the same."""
    page = visit()
    settled(page)
    page.evaluate("{ const button = document.querySelector('button'); button.click(); button.click(); }")
    settled(page)
    assert desk.count("POST") == 1


@pytest.mark.parametrize("query", ["?n=3", "?strict=0"])
def test_one_poller(visit: Callable[..., Page], desk: Desk, query: str) -> None:
    """StrictMode, several components and 50 remounts: GETs ≤ 1 + T / interval, never two at once."""
    desk.say(trigger="backfill")
    page = visit(query)
    settled(page)
    assert desk.count() == 1, "mounting twice costs one GET"
    page.evaluate("for (let i = 0; i < 50; i++) remount()")
    for _ in range(10):
        tick(page, 500)
    log = desk.log()
    assert 1 + 2 <= len(log) == page.evaluate("probe.fetches") <= 1 + 5
    assert max(entry["at_once"] for entry in log) == 1
    assert page.evaluate("[probe.mostRequests, probe.intervals]") == [1, 0]


def test_unmounted_is_silent(visit: Callable[..., Page], desk: Desk) -> None:
    """The poller stops with its last component, and resumes with the next."""
    desk.say(trigger="backfill")
    page = visit("?n=3")
    settled(page)
    page.evaluate("show(false)")
    expect(page.get_by_role("button")).to_have_count(0)
    tick(page, 10_000)
    assert desk.count() == 1
    page.evaluate("show(true)")
    expect(page.get_by_role("button").first).to_be_disabled()
    assert desk.count() == 2
