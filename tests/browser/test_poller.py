"""The polling core: one mechanism, whatever happens to the page (rules 1, 2, 7 and 8 of asynctask.js)."""

from __future__ import annotations

from math import ceil
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Desk, Opener, Pages, kinds, settled, tick

INTERVAL = 1000  # milliseconds that the server asks for while it knows no rate; stretched to 1250 at most
STEP = 500


def let_pass(page: Page, milliseconds: int) -> None:
    """Move the page's clock in steps, each with its answers dealt with."""
    for _ in range(0, milliseconds, STEP):
        tick(page, STEP)


def assert_law(page: Page, desk: Desk, elapsed: int, wake_ups: int = 0) -> dict[str, Any]:
    """The one-poller law, as the page and as the server counted it."""
    probe: dict[str, Any] = page.evaluate("probe")
    log = desk.log()
    most = 1 + ceil(elapsed / INTERVAL) + wake_ups
    assert probe["fetches"] == len(log) <= most
    assert len(log) >= 1 + elapsed // (INTERVAL * 1.25 + STEP), "polling has stopped"
    assert {entry["method"] for entry in log} == {"GET"}
    assert max(entry["at_once"] for entry in log) == probe["mostRequests"] == 1
    assert probe["most"] == 1, "timers + requests under way ≤ 1"
    assert probe["intervals"] == 0
    return probe


@pytest.fixture
def running(desk: Desk) -> Desk:
    """A run is under way."""
    desk.say(trigger="backfill")
    return desk


@pytest.mark.parametrize("count", [1, 3, 20])
def test_elements_share_one_stream(visit: Opener, running: Desk, count: int) -> None:
    """However many elements show a job: one poller."""
    page = visit(f"?n={count}", clock=True)
    settled(page)
    let_pass(page, 10_000)
    assert_law(page, running, 10_000)
    expect(page.locator("async-task[status=RUNNING]")).to_have_count(count)


def test_remounts_and_moves_cost_nothing(visit: Opener, running: Desk) -> None:
    """50 replacements and 50 moves of an element, each within one task, add no request and no timer."""
    page = visit(clock=True)
    settled(page)
    for script in (
        "const old = document.querySelector('async-task'); old.replaceWith(old.cloneNode())",
        "document.querySelector('main').append(document.querySelector('async-task'))",
    ):
        page.evaluate(f"for (let i = 0; i < 50; i++) {{ {script} }}")
        let_pass(page, 3_000)
    assert_law(page, running, 6_000)


def test_remounts_over_time_leave_nothing_behind(visit: Opener, running: Desk) -> None:
    """50 removals with a return in a later task cost their first GET each, and never a second timer."""
    page = visit(clock=True)
    settled(page)
    for _ in range(50):
        page.evaluate("window.kept = document.querySelector('async-task'); kept.remove()")
        settled(page)
        assert page.evaluate("probe.timers") == 0
        page.evaluate("document.querySelector('main').append(kept)")
        settled(page)
    let_pass(page, 5_000)
    assert_law(page, running, 5_000, wake_ups=50)


def test_removed_while_a_get_is_under_way(visit: Opener, running: Desk) -> None:
    """The GET is aborted, then there is silence."""
    running.say(hold="GET")
    page = visit(clock=True)
    running.log(seen=1)
    page.evaluate("document.querySelector('async-task').remove()")
    settled(page)
    assert page.evaluate("probe.aborted") == 1
    running.say(release=True)
    tick(page, 5_000)
    probe = page.evaluate("probe")
    assert (probe["fetches"], probe["timers"], running.count()) == (1, 0, 1)


def test_last_element_removed(visit: Opener, running: Desk) -> None:
    """The poller goes with its last element, not before."""
    page = visit("?n=2", clock=True)
    settled(page)
    page.evaluate("document.querySelector('async-task').remove()")
    let_pass(page, 3_000)
    seen = assert_law(page, running, 3_000)["fetches"]
    page.evaluate("document.querySelector('async-task').remove()")
    tick(page, 5_000)
    assert page.evaluate("[probe.fetches, probe.timers]") == [seen, 0]


def test_hidden_page_is_parked(visit: Opener, running: Desk) -> None:
    """Hidden: no timer and no request; visible again: one GET at once."""
    page = visit(clock=True)
    settled(page)
    page.evaluate("probe.hide(true)")
    assert page.evaluate("probe.timers") == 0
    tick(page, 10_000)
    assert running.count() == 1
    page.evaluate("probe.hide(false)")
    settled(page)
    assert running.count() == 2
    let_pass(page, 3_000)
    assert_law(page, running, 3_000, wake_ups=1)


def test_hidden_while_a_get_is_under_way(visit: Opener, running: Desk) -> None:
    """Parking aborts the GET; coming back asks anew."""
    running.say(hold="GET")
    page = visit(clock=True)
    running.log(seen=1)
    page.evaluate("probe.hide(true)")
    settled(page)
    running.say(release=True)
    assert page.evaluate("[probe.aborted, probe.timers]") == [1, 0]
    page.evaluate("probe.hide(false)")
    settled(page)
    expect(page.locator("async-task")).to_have_attribute("status", "RUNNING")
    assert running.count() == 2


def test_opened_in_a_hidden_tab(visit: Opener, running: Desk) -> None:
    """A page that nobody has looked at yet asks for nothing until somebody does."""
    page = visit("?n=0", clock=True)
    page.evaluate("probe.hide(true)")
    page.evaluate("document.querySelector('main').innerHTML = '<async-task src=/api/backfill></async-task>'")
    tick(page, 3_000)
    assert page.evaluate("probe.fetches") == 0
    page.evaluate("probe.hide(false)")
    settled(page)
    assert running.count() == 1


def test_twenty_visibility_toggles(visit: Opener, running: Desk) -> None:
    """Each return costs one GET, and there is still one timer."""
    page = visit(clock=True)
    settled(page)
    for _ in range(20):
        page.evaluate("probe.hide(true)")
        tick(page, 100)
        page.evaluate("probe.hide(false)")
        settled(page)
    assert running.count() == 21
    let_pass(page, 5_000)
    assert_law(page, running, 5_000, wake_ups=20)


def test_toggles_within_one_task(visit: Opener, running: Desk) -> None:
    """Hiding and showing faster than the server answers never makes two requests or two timers at once."""
    page = visit(clock=True)
    page.evaluate("for (let i = 0; i < 20; i++) { probe.hide(true); probe.hide(false); }")
    settled(page)
    let_pass(page, 3_000)
    assert page.evaluate("probe.timers") == 1
    assert page.evaluate("probe.fetches - probe.aborted") <= 1 + 3 + 1


def test_offline_is_parked_and_said(pages: Pages, running: Desk) -> None:
    """Offline: the page says so, keeps the progress and asks nothing; online: one GET at once."""
    running.say(total=100, advance=42)
    running.url = running.url.replace("127.0.0.1", "shop.test")  # a name that is not this machine's own
    pages.failures_expected = True  # the browser may look for the icon while it is offline
    page = pages.open(pages.context(running), f"{running.url}/page", clock=True)
    settled(page)
    page.context.set_offline(True)
    expect(page.locator("[part=title]")).to_have_text("Connection lost. Trying again…")
    expect(page.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "42")
    tick(page, 10_000)
    assert running.count() == 1
    page.context.set_offline(False)
    expect(page.locator("[part=alert]")).to_have_attribute("data-kind", "running")
    assert running.count() == page.evaluate("probe.fetches") == 2
    assert kinds(page).count("task-connection") == 2


def test_a_server_on_this_machine_needs_no_network(visit: Opener, running: Desk) -> None:
    """On a loopback address `navigator.onLine` says nothing: the page goes on."""
    page = visit(clock=True)
    settled(page)
    page.evaluate("Object.defineProperty(navigator, 'onLine', { get: () => false })")
    page.evaluate("dispatchEvent(new Event('offline'))")
    settled(page)
    let_pass(page, 3_000)
    assert_law(page, running, 3_000, wake_ups=1)
    expect(page.locator("[part=alert]")).to_have_attribute("data-kind", "running")


def test_back_from_the_back_forward_cache(visit: Opener, running: Desk) -> None:
    """`pageshow` with `persisted` costs one GET at once; the first `pageshow` of a page none."""
    page = visit(clock=True)
    settled(page)
    page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', { persisted: false }))")
    settled(page)
    assert running.count() == 1
    page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))")
    settled(page)
    assert running.count() == 2
    assert page.evaluate("probe.timers") == 1


def test_settled_is_silent(visit: Opener, desk: Desk) -> None:
    """A run ends: `task-settled` once, one list refresh, and nothing more for 10 intervals."""
    run_id = desk.say(trigger="backfill")
    page = visit(clock=True)
    page.evaluate("window.loads = 0; addEventListener('task-settled', () => loads++)")
    settled(page)
    desk.say(finish=True)
    tick(page, 2 * INTERVAL)
    assert desk.count() == 2
    tick(page, 10 * INTERVAL)
    page.evaluate("probe.hide(true); probe.hide(false)")  # looks once more, and sees the same run
    settled(page)
    tick(page, INTERVAL)
    assert (desk.count(), page.evaluate("probe.timers")) == (3, 0)
    assert page.evaluate("loads") == 1
    ends = [event for event in page.evaluate("probe.events") if event[0] in ("task-settled", "task-success")]
    assert ends == [["task-success", run_id], ["task-settled", run_id]]


def test_source_changed(visit: Opener, running: Desk) -> None:
    """Another `src`, or other headers, is another poller; the old one ends."""
    page = visit(clock=True)
    settled(page)
    page.evaluate("document.querySelector('async-task').setAttribute('src', '/api/other')")
    settled(page)
    expect(page.locator("async-task")).to_have_attribute("status", "IDLE")
    page.evaluate("document.querySelector('async-task').headers = { 'X-Visitor': 'another' }")
    settled(page)
    tick(page, 3_000)
    assert [entry["path"] for entry in running.log()] == ["/api/backfill/status"] + 2 * ["/api/other/status"]
    assert page.evaluate("probe.timers") == 0
