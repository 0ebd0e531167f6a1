"""Every state that the demo page can be in, as a recipe for the accessibility tests and the pictures."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.browser.conftest import Desk, settled, tick

KIND = "[part=alert]"


def idle(page: Page, desk: Desk) -> None:
    expect(page.locator("async-task")).to_have_attribute("status", "IDLE")


def running(page: Page, desk: Desk) -> None:
    """42 %, under way."""
    desk.say(trigger="duplicates/check", total=6000, advance=2544)
    look(page)
    expect(page.locator("[part=button]")).to_have_text("Checking 42%")


def indeterminate(page: Page, desk: Desk) -> None:
    desk.say(trigger="duplicates/check", advance=2544)
    look(page)
    expect(page.locator("[part=button]")).to_have_text("Checking…")


def success(page: Page, desk: Desk) -> None:
    running(page, desk)
    desk.say(advance=3456, finish=True)
    tick(page, 7_000)
    expect(page.locator(KIND)).to_have_attribute("data-kind", "success")


def failed(page: Page, desk: Desk) -> None:
    running(page, desk)
    desk.say(fail="The remote API answered 503 Service Unavailable for 312 calls in a row.")
    tick(page, 7_000)
    expect(page.locator(KIND)).to_have_attribute("data-kind", "failed")


def lost(page: Page, desk: Desk) -> None:
    """Three errors in a row, in mid-run."""
    running(page, desk)
    desk.say(faults=[{"method": "GET", "status": 502}] * 6)
    for _ in range(3):
        tick(page, 7_000)
    expect(page.locator("[part=retry]")).to_be_visible()


def refused(page: Page, desk: Desk) -> None:
    """The tenant's only place is taken."""
    desk.say(trigger="other")
    page.locator("[part=button]").click()
    expect(page.locator(KIND)).to_have_attribute("data-kind", "warning")


def blocked(page: Page, desk: Desk) -> None:
    """The session is over."""
    page.context.clear_cookies()
    look(page)
    expect(page.locator("[part=retry]")).to_be_visible()


STATES: dict[str, Callable[[Page, Desk], None]] = {
    state.__name__: state for state in (idle, running, indeterminate, success, failed, lost, refused, blocked)
}


def look(page: Page) -> None:
    """Have the element look at once."""
    settled(page)
    page.evaluate("document.querySelector('async-task').refresh()")
    settled(page)
