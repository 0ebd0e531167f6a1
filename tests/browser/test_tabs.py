"""Several visitors, several tabs, a reload: everyone who comes in sees the same run."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.conftest import Desk, Opener, Pages, settled, tick

RUN_ID = "document.querySelector('async-task').snapshot.runId"


def test_two_visitors_see_one_run(visit: Opener, desk: Desk) -> None:
    """Two browser contexts: the second sees the run of the first, disabled and with its progress."""
    first = visit()
    first.locator("[part=button]").click()
    expect(first.locator("async-task")).to_have_attribute("status", "RUNNING")
    desk.say(total=100, advance=42)
    second = visit()
    expect(second.locator("[part=button]")).to_be_disabled()
    expect(second.locator("[part=button]")).to_have_text("Run 42%")
    assert first.evaluate(RUN_ID) == second.evaluate(RUN_ID) == desk.run_id
    desk.say(finish=True)
    for page in (first, second):
        expect(page.locator("[part=alert]")).to_have_attribute("data-kind", "success")


def test_reload_in_mid_run(visit: Opener, desk: Desk) -> None:
    """A reload resumes where the run is, and sees it to its end."""
    page = visit(clock=True)
    settled(page)
    page.locator("[part=button]").click()
    settled(page)
    desk.say(total=100, advance=42)
    before = page.evaluate(RUN_ID)
    page.reload()
    settled(page)
    expect(page.locator("[part=button]")).to_have_text("Run 42%")
    assert page.evaluate(RUN_ID) == before
    desk.say(finish=True)
    tick(page, 7_000)
    expect(page.locator("[part=alert]")).to_have_attribute("data-kind", "success")
    assert ["task-settled", before] in page.evaluate("probe.events")


def test_three_tabs(desk: Desk, pages: Pages) -> None:
    """A trigger in one tab costs each of the others one GET; then each has one stream of its own."""
    context = pages.context(desk)
    tabs = [pages.open(context, f"{desk.url}/page", clock=True) for _ in range(3)]
    for tab in tabs:
        settled(tab)
    tabs[0].locator("[part=button]").click()
    for tab in tabs:
        expect(tab.locator("async-task")).to_have_attribute("status", "RUNNING")
        settled(tab)
    assert [tab.evaluate("probe.fetches") for tab in tabs] == [2, 2, 2]
    assert len({tab.evaluate(RUN_ID) for tab in tabs}) == 1
    for _ in range(10):
        context.clock.run_for(500)
        for tab in tabs:
            settled(tab)
    for tab in tabs:
        assert 2 + 2 <= tab.evaluate("probe.fetches") <= 2 + 5
        assert tab.evaluate("[probe.most, probe.mostRequests, probe.timers, probe.intervals]") == [1, 1, 1, 0]
    assert desk.count() + desk.count("POST") == sum(tab.evaluate("probe.fetches") for tab in tabs)


def test_a_hidden_tab_does_not_answer_a_trigger_elsewhere(desk: Desk, pages: Pages) -> None:
    """A parked tab stays silent, and sees the run when somebody looks at it."""
    context = pages.context(desk)
    first, second = (pages.open(context, f"{desk.url}/page", clock=True) for _ in range(2))
    settled(second)
    second.evaluate("probe.hide(true)")
    first.locator("[part=button]").click()
    expect(first.locator("async-task")).to_have_attribute("status", "RUNNING")
    tick(second, 5_000)
    assert second.evaluate("probe.fetches") == 1
    second.evaluate("probe.hide(false)")
    settled(second)
    expect(second.locator("async-task")).to_have_attribute("status", "RUNNING")
    assert second.evaluate("probe.fetches") == 2
