"""For everybody: no violation that axe knows, in any state, light or dark; nothing moves for who asked for stillness."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.browser.conftest import Desk, Pages, settled
from tests.browser.states import STATES

WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
MOVING = "document.getAnimations().length + document.querySelector('async-task').shadowRoot.getAnimations().length"


@pytest.fixture(scope="session")
def axe(modules: Path) -> str:
    return (modules / "axe-core" / "axe.min.js").read_text("utf-8")


def violations(page: Page, axe: str) -> list[str]:
    """What axe has to say against the page, in its words."""
    page.evaluate(axe)
    found: list[Any] = page.evaluate("axe.run().then((result) => result.violations)")
    return [f"{one['id']}: {one['help']}: {[node['html'] for node in one['nodes']]}" for one in found]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("state", STATES)
def test_axe_finds_nothing(pages: Pages, desk: Desk, axe: str, state: str, scheme: Any) -> None:
    """The demo page in every state, in both colour schemes."""
    pages.failures_expected = True
    context = pages.context(desk, color_scheme=scheme, reduced_motion="reduce", viewport=WIDE)
    page = pages.open(context, desk.url, clock=True)
    settled(page)
    STATES[state](page, desk)
    page.clock.resume()  # axe waits by timers
    assert violations(page, axe) == []


@pytest.mark.parametrize("state", ["running", "indeterminate", "success", "lost"])
def test_nothing_moves_with_reduced_motion(pages: Pages, desk: Desk, state: str) -> None:
    """`prefers-reduced-motion`: no animation and no transition runs, neither in the element nor on the page."""
    pages.failures_expected = True
    page = pages.open(pages.context(desk, reduced_motion="reduce"), desk.url, clock=True)
    settled(page)
    STATES[state](page, desk)
    assert page.evaluate(MOVING) == 0
    if state != "success":  # to show that something is counted
        page.emulate_media(reduced_motion="no-preference")
        assert page.evaluate(MOVING) > 0


@pytest.mark.parametrize("state", STATES)
def test_narrow_screens(pages: Pages, desk: Desk, state: str) -> None:
    """390 px: nothing is cut off or scrolls sideways, and the button is as tall as a thumb wants it."""
    pages.failures_expected = True
    page = pages.open(pages.context(desk, viewport=NARROW), desk.url, clock=True)
    settled(page)
    STATES[state](page, desk)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    box = page.locator("[part=button]").bounding_box()
    assert box is not None
    assert box["height"] >= 36
