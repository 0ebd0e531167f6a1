"""For everybody: axe finds nothing in any state; nothing moves for who asked for that; narrow screens."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Page

from tests.browser.conftest import Desk, Pages, settled
from tests.browser.states import STATES

SCHEMES: list[Literal["light", "dark"]] = ["light", "dark"]
MOVING = """document.getAnimations().length
  + document.querySelector("async-task").shadowRoot.getAnimations().length"""


@pytest.fixture(scope="session")
def axe(modules: Path) -> str:
    return (modules / "axe-core" / "axe.min.js").read_text("utf-8")


def violations(page: Page) -> list[str]:
    """What axe has to say against the page, in its words."""
    page.clock.resume()  # it waits by timers
    found: list[Any] = page.evaluate("axe.run().then((result) => result.violations)")
    page.clock.pause_at(page.evaluate("Date.now() / 1000 + 1"))
    return [f"{one['id']}: {one['help']}: {[node['html'] for node in one['nodes']]}" for one in found]


@pytest.mark.parametrize("state", STATES)
def test_every_state(pages: Pages, desk: Desk, axe: str, state: str) -> None:
    """The demo page, light and dark: no violation; at 390 px: nothing scrolls sideways, and a thumb fits."""
    pages.failures_expected = True
    context = pages.context(desk, reduced_motion="reduce", viewport={"width": 1280, "height": 900})
    page = pages.open(context, desk.url, clock=True)
    settled(page)
    STATES[state](page, desk)
    page.evaluate(axe)
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        assert violations(page) == []
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    box = page.locator("[part=button]").bounding_box()
    assert box is not None
    assert box["height"] >= 36


@pytest.mark.parametrize("state", ["running", "indeterminate", "success", "lost"])
def test_nothing_moves_with_reduced_motion(pages: Pages, desk: Desk, state: str) -> None:
    """`prefers-reduced-motion`: no animation or transition runs, in the element or on the page."""
    pages.failures_expected = True
    page = pages.open(pages.context(desk, reduced_motion="reduce"), desk.url, clock=True)
    settled(page)
    STATES[state](page, desk)
    assert page.evaluate(MOVING) == 0
    if state != "success":  # to show that something is counted
        page.emulate_media(reduced_motion="no-preference")
        assert page.evaluate(MOVING) > 0
