"""Clicks and triggers: one POST, whatever comes of it (rule 4 of asynctask.js)."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Desk, Opener, Pages, kinds, settled, tick


def test_double_click_on_a_slow_machine(visit: Opener, desk: Desk) -> None:
    """A double click under 6× CPU throttling sends one POST."""
    page = visit()
    settled(page)
    page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": 6})
    page.locator("[part=button]").dblclick()
    settled(page)
    expect(page.locator("async-task")).to_have_attribute("status", "RUNNING")
    assert desk.count("POST") == 1


def test_the_lock_is_taken_in_the_click_handler(visit: Opener, desk: Desk) -> None:
    """Before the click returns the button is disabled, and triggers from elsewhere share its POST."""
    page = visit("?n=2&label=Check")
    settled(page)
    desk.say(hold="POST")
    seen = page.evaluate(
        """() => {
          const [first, second] = document.querySelectorAll("async-task");
          const button = first.shadowRoot.querySelector("button");
          button.click();
          const other = second.shadowRoot.querySelector("button");
          const seen = [button.disabled, button.textContent, other.disabled];
          button.click();
          first.trigger();
          second.trigger();
          return seen;
        }"""
    )
    assert seen == [True, "Check…", True]
    desk.log(seen=2)
    desk.say(release=True)
    settled(page)
    expect(page.locator("async-task[status=RUNNING]")).to_have_count(2)
    assert desk.count("POST") == 1


def test_trigger_resolves_with_the_state(visit: Opener, desk: Desk) -> None:
    """`trigger()` tells what came of it, and its payload reaches the job as JSON."""
    page = visit("?src=/api/quick")
    settled(page)
    state = page.evaluate("document.querySelector('async-task').trigger({ a: 1 })")
    assert (state["problem"], state["pending"]) == (None, False)
    expect(page.locator("async-task")).to_have_attribute("status", "SUCCESS")
    assert page.evaluate("document.querySelector('async-task').snapshot.result") == {"a": 1}


def test_payload_of_a_click(visit: Opener, desk: Desk, pages: Pages) -> None:
    """The `payload` property is what a click sends; what does not fit is shown, and can be dismissed."""
    pages.failures_expected = True
    page = visit("?src=/api/quick")
    settled(page)
    page.evaluate("document.querySelector('async-task').payload = { a: 'not a number' }")
    page.locator("[part=button]").click()
    expect(page.locator("[part=title]")).to_contain_text("int")
    expect(page.locator("[part=button]")).to_be_enabled()
    page.get_by_role("button", name="Dismiss").click()
    expect(page.locator("[part=alert]")).to_be_hidden()
    page.evaluate("document.querySelector('async-task').payload = { a: 2 }")
    page.locator("[part=button]").click()
    expect(page.locator("async-task")).to_have_attribute("status", "SUCCESS")
    assert page.evaluate("document.querySelector('async-task').snapshot.result") == {"a": 2}


def test_over_before_the_first_get(visit: Opener, desk: Desk) -> None:
    """A run that ends before anybody can look still settles, once."""
    page = visit("?src=/api/quick", clock=True)
    settled(page)
    page.locator("[part=button]").click()
    settled(page)
    tick(page, 1250)
    expect(page.locator("[part=title]")).to_have_text("Run: done")
    tick(page, 10_000)
    seen = kinds(page)
    assert (seen.count("task-settled"), seen.count("task-success")) == (1, 1)
    assert page.evaluate("probe.timers") == 0


def test_second_run_after_the_first(visit: Opener, desk: Desk) -> None:
    """Each run settles once: two runs, two events, with their own run ids."""
    page = visit("?src=/api/quick", clock=True)
    for _ in range(2):
        settled(page)
        page.locator("[part=button]").click()
        settled(page)
        tick(page, 5_000)
    runs = [run for kind, run in page.evaluate("probe.events") if kind == "task-settled"]
    assert len(runs) == len(set(runs)) == 2


def test_gateway_times_out_and_the_run_started(visit: Opener, desk: Desk, pages: Pages) -> None:
    """A 504 whose POST had reached the job: the page looks, and shows the run; no error is left standing."""
    pages.failures_expected = True
    page = visit(clock=True)
    settled(page)
    desk.say(faults=[{"method": "POST", "status": 504, "reached": True}])
    page.locator("[part=button]").click()
    settled(page)
    expect(page.locator("async-task")).to_have_attribute("status", "RUNNING")
    expect(page.locator("[part=alert]")).to_have_attribute("data-kind", "running")
    assert [entry["method"] for entry in desk.log()] == ["GET", "POST", "GET"]
    assert page.evaluate("probe.most") == 1


@pytest.mark.parametrize("broken", [0, 2])
def test_gateway_times_out_and_the_run_is_over_already(
    visit: Opener, desk: Desk, pages: Pages, broken: int
) -> None:
    """A run of a lost 504 trigger that has ended when the page gets to look settles all the same."""
    pages.failures_expected = True
    page = visit("?src=/api/quick", clock=True)
    settled(page)
    lost = {"method": "POST", "status": 504, "reached": True}
    desk.say(faults=[lost] + broken * [{"method": "GET", "status": 502}])
    page.locator("[part=button]").click()
    settled(page)
    for _ in range(broken):
        tick(page, 5_000)
    expect(page.locator("async-task")).to_have_attribute("status", "SUCCESS")
    assert kinds(page).count("task-settled") == 1


def test_gateway_times_out_and_nothing_started(visit: Opener, desk: Desk, pages: Pages) -> None:
    """A 504 whose POST never arrived: said, and the button is free for another try."""
    pages.failures_expected = True
    page = visit(clock=True)
    settled(page)
    desk.say(faults=[{"method": "POST", "status": 504}])
    page.locator("[part=button]").click()
    expect(page.locator("[part=title]")).to_have_text("The server did not take the request (504).")
    expect(page.locator("[part=button]")).to_be_enabled()
    page.locator("[part=button]").click()
    expect(page.locator("[part=alert]")).to_have_attribute("data-kind", "running")
    assert desk.count("POST") == 2
    assert "task-settled" not in kinds(page)


def test_over_the_tenant_limit(visit: Opener, desk: Desk, pages: Pages) -> None:
    """429: the server's own words are shown, and the button waits for Retry-After before it is free."""
    pages.failures_expected = True
    desk.say(trigger="other")
    page = visit(clock=True)
    settled(page)
    page.locator("[part=button]").click()
    settled(page)
    assert desk.log()[-1]["status"] == 429
    wait = page.evaluate("probe.delays")[-1]
    assert wait >= 1000
    expect(page.locator("[part=title]")).to_contain_text("runs")
    expect(page.locator("[part=button]")).to_be_disabled()
    desk.say(finish=True)
    tick(page, int(wait) - 20)
    expect(page.locator("[part=button]")).to_be_disabled()
    tick(page, 40)
    expect(page.locator("[part=button]")).to_be_enabled()
    assert page.evaluate("[probe.most, probe.timers]") == [1, 0]
    page.locator("[part=button]").click()
    expect(page.locator("[part=alert]")).to_have_attribute("data-kind", "running")


def test_server_out_of_room(visit: Opener, desk: Desk, pages: Pages) -> None:
    """503 with Retry-After is a refusal too: nothing was started, so nothing is looked for meanwhile."""
    pages.failures_expected = True
    page = visit(clock=True)
    settled(page)
    desk.say(faults=[{"method": "POST", "status": 503, "headers": {"Retry-After": "5"}}])
    page.locator("[part=button]").click()
    settled(page)
    tick(page, 4_900)
    expect(page.locator("[part=button]")).to_be_disabled()
    assert desk.count() == 1
    tick(page, 200)
    expect(page.locator("[part=button]")).to_be_enabled()


def test_cancel(visit: Opener, desk: Desk) -> None:
    """`cancelable` offers to cancel while the run is under way; the run then ends as the server says."""
    run_id = desk.say(trigger="backfill")
    page = visit("?cancelable=", clock=True)
    settled(page)
    page.locator("[part=cancel]").click()
    settled(page)
    expect(page.locator("[part=cancel]")).to_be_disabled()
    expect(page.locator("[part=cancel]")).to_have_text("Cancelling…")
    tick(page, 1250)
    expect(page.locator("[part=title]")).to_have_text("Run: failed")
    assert page.evaluate("document.querySelector('async-task').snapshot.errorCode") == "cancelled"
    assert ["task-settled", run_id] in page.evaluate("probe.events")


def test_cancel_refused(visit: Opener, desk: Desk, pages: Pages) -> None:
    """A job that is not cancelable says so; dismissed, the progress is there again."""
    pages.failures_expected = True
    desk.say(trigger="other")
    page = visit("?src=/api/other&cancelable=", clock=True)
    settled(page)
    page.locator("[part=cancel]").click()
    expect(page.locator("[part=title]")).to_contain_text("cannot be cancelled")
    tick(page, 1250)
    expect(page.locator("[part=title]")).to_contain_text("cannot be cancelled")
    page.get_by_role("button", name="Dismiss").click()
    expect(page.locator("[part=alert]")).to_have_attribute("data-kind", "running")
    expect(page.locator("async-task")).to_have_attribute("status", "RUNNING")


def test_removed_while_the_post_is_under_way(visit: Opener, desk: Desk) -> None:
    """The click still reaches the server; then there is silence."""
    page = visit(clock=True)
    settled(page)
    desk.say(hold="POST")
    page.locator("[part=button]").click()
    desk.log(seen=2)
    page.evaluate("document.querySelector('async-task').remove()")
    desk.say(release=True)
    settled(page)
    tick(page, 10_000)
    assert desk.log()[1]["status"] == 202
    assert page.evaluate("[probe.fetches, probe.timers, probe.aborted]") == [2, 0, 0]


def test_hidden_while_the_post_is_under_way(visit: Opener, desk: Desk) -> None:
    """The POST is let through, and the page parks when it is answered."""
    page = visit(clock=True)
    settled(page)
    desk.say(hold="POST")
    page.locator("[part=button]").click()
    desk.log(seen=2)
    page.evaluate("probe.hide(true)")
    desk.say(release=True)
    settled(page)
    tick(page, 10_000)
    expect(page.locator("async-task")).to_have_attribute("status", "RUNNING")
    assert page.evaluate("[probe.fetches, probe.timers, probe.aborted]") == [2, 0, 0]
