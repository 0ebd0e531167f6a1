"""What the core makes of answers: late ones, old ones, errors, refusals (rules 2 to 6 of asynctask.js)."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import Desk, Opener, Pages, kinds, settled, tick


def button(page: Page) -> Any:
    return page.locator("[part=button]")


def test_a_get_cannot_overwrite_the_answer_to_a_later_post(visit: Opener, desk: Desk) -> None:
    """A GET that left before the POST and comes back after it is dropped, even where it cannot be aborted."""
    desk.say(hold="GET")
    page = visit("?n=0", clock=True)
    page.evaluate(
        """{
          const { fetch } = window;
          window.fetch = (url, init) => fetch(url, { ...init, signal: undefined });
          document.querySelector("main").innerHTML = "<async-task src=/api/backfill></async-task>";
        }"""
    )
    desk.log(seen=1)  # its answer, IDLE, is made and on its way
    button(page).click()
    expect(page.locator("async-task")).to_have_attribute("status", "RUNNING")
    desk.say(release=True)
    settled(page)
    expect(page.locator("async-task")).to_have_attribute("status", "RUNNING")
    assert page.evaluate("probe.timers") == 1
    assert "task-settled" not in kinds(page)


def test_a_post_aborts_the_get_before_it(visit: Opener, desk: Desk) -> None:
    """The GET is not left to compete with the POST."""
    desk.say(hold="GET")
    page = visit(clock=True)
    desk.log(seen=1)
    button(page).click()
    settled(page)
    assert page.evaluate("probe.aborted") == 1
    expect(page.locator("async-task")).to_have_attribute("status", "RUNNING")
    desk.say(release=True)


def test_a_lower_version_of_the_same_run_is_refused(visit: Opener, desk: Desk) -> None:
    """Progress does not jump back when an answer overtakes another on its way."""
    desk.say(trigger="backfill", total=100, advance=42)
    page = visit(clock=True)
    settled(page)
    old = page.evaluate("document.querySelector('async-task').snapshot")

    def older(route: Route) -> None:
        route.fulfill(json={**old, "version": old["version"] - 1, "processed": 7, "percent": 7})

    page.route("**/status", older)
    tick(page, 7_000)
    expect(button(page)).to_have_text("Run 42%")
    assert page.evaluate("document.querySelector('async-task').snapshot.version") == old["version"]
    assert page.evaluate("probe.timers") == 1, "it goes on polling"


def test_conditional_requests(visit: Opener, desk: Desk) -> None:
    """An unchanged picture costs a 304 without a body."""
    desk.say(trigger="backfill")
    page = visit(clock=True)
    settled(page)
    tick(page, 1250)
    desk.say(message="half way")
    tick(page, 1250)
    tick(page, 1250)
    assert [entry["status"] for entry in desk.log()] == [200, 304, 200, 304]
    expect(page.locator("[part=detail]")).to_have_text("half way")


@pytest.mark.parametrize("asked", [250, 1000, 4000])
def test_the_server_sets_the_pace(visit: Opener, desk: Desk, asked: int) -> None:
    """The interval is what the server asked for, stretched by up to 25 %, not by the same in each tab."""
    desk.say(trigger="backfill")
    page = visit(clock=True)
    settled(page)
    picture = page.evaluate("document.querySelector('async-task').snapshot")
    page.route("**/status", lambda route: route.fulfill(json={**picture, "pollAfterMs": asked}))
    for _ in range(8):
        tick(page, 5_000)
    delays = page.evaluate("probe.delays")[1:]
    assert len(delays) == 8
    assert all(asked <= delay <= 1.25 * asked for delay in delays)
    assert len(set(delays)) > 1


def test_retry_after_counts_where_there_is_no_body(visit: Opener, desk: Desk) -> None:
    """A 304 says in its header when to come back."""
    desk.say(trigger="backfill")
    page = visit(clock=True)
    settled(page)
    page.route("**/status", lambda route: route.fulfill(status=304, headers={"Retry-After": "5"}))
    tick(page, 1250)
    assert 5_000 <= page.evaluate("probe.delays")[1] <= 6_250


def test_errors_back_off_and_the_last_progress_stays(visit: Opener, desk: Desk, pages: Pages) -> None:
    """1, 2, 4 … 30 s with jitter; after three the connection is lost, which is not FAILED."""
    pages.failures_expected = True
    desk.say(trigger="backfill", total=100, advance=42)
    page = visit(clock=True)
    settled(page)
    desk.say(faults=[{"method": "GET", "status": 504}] * 8)
    bases = [1, 2, 4, 8, 16, 30, 30, 30]
    tick(page, 7_000)
    for number, base in enumerate(bases, start=1):
        delay = page.evaluate("probe.delays").pop()
        assert base * 1000 <= delay <= base * 1250
        expect(page.locator("async-task")).to_have_attribute("status", "RUNNING")
        expect(page.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "42")
        kind = "warning" if number >= 3 else "running"
        expect(page.locator("[part=alert]")).to_have_attribute("data-kind", kind)
        tick(page, base * 1250)
    expect(page.locator("[part=alert]")).to_have_attribute("data-kind", "running")
    assert page.evaluate("probe.most") == 1
    seen = kinds(page)
    assert (seen.count("task-connection"), seen.count("task-error")) == (2, 0)


def test_try_now(visit: Opener, desk: Desk, pages: Pages) -> None:
    """Who does not want to wait for the next attempt need not."""
    pages.failures_expected = True
    desk.say(faults=[{"method": "GET", "status": 502}] * 3)
    page = visit("?lang=zh", clock=True)
    for _ in range(2):
        tick(page, 10_000)
    expect(page.locator("[part=title]")).to_have_text("连接已断开，正在重试…")
    page.get_by_role("button", name="立即重试").click()
    settled(page)
    expect(page.locator("[part=alert]")).to_be_hidden()
    assert page.evaluate("[probe.fetches, probe.timers]") == [4, 0]


def test_an_error_with_retry_after(visit: Opener, desk: Desk, pages: Pages) -> None:
    """A 503 that says when to come back is taken at its word."""
    pages.failures_expected = True
    desk.say(faults=[{"method": "GET", "status": 503, "headers": {"Retry-After": "20"}}])
    page = visit(clock=True)
    settled(page)
    assert 20_000 <= page.evaluate("probe.delays")[0] <= 25_000


def test_a_page_that_is_not_ours(visit: Opener, desk: Desk) -> None:
    """A portal's login page with status 200 is an error, not a picture."""
    desk.say(trigger="backfill")
    page = visit(clock=True)
    settled(page)
    portal = "<h1>Welcome to our Wi-Fi</h1>"
    page.route("**/status", lambda route: route.fulfill(body=portal, content_type="text/html"))
    for _ in range(3):
        tick(page, 10_000)
    expect(page.locator("[part=title]")).to_have_text("Connection lost. Trying again…")
    expect(page.locator("async-task")).to_have_attribute("status", "RUNNING")


def test_a_request_that_hangs(visit: Opener, desk: Desk) -> None:
    """A line that is dead without a word is given up after 30 s."""
    desk.say(trigger="backfill")
    page = visit(clock=True)
    settled(page)
    desk.say(hold="GET")
    page.clock.run_for(1_250)
    desk.log(seen=2)
    page.clock.run_for(28_000)
    assert page.evaluate("[probe.requests, probe.aborted]") == [1, 0]
    page.clock.run_for(2_000)
    desk.say(release=True)
    settled(page)
    assert page.evaluate("[probe.aborted, probe.timers]") == [1, 1]
    tick(page, 1_250)
    expect(page.locator("async-task")).to_have_attribute("status", "RUNNING")
    assert page.evaluate("[probe.most, probe.timers]") == [1, 1]


@pytest.mark.parametrize(
    ("tenant", "src", "text"),
    [
        ("", "/api/backfill", "Sign in first."),
        ("forbidden", "/api/backfill", "Not yours."),
        (None, "/api/nothing", "no job answers"),
    ],
)
def test_blocked(pages: Pages, desk: Desk, tenant: str | None, src: str, text: str) -> None:
    """401, 403, 404: the reason is shown, nothing is asked any more, and a refresh looks again."""
    pages.failures_expected = True
    if tenant:
        desk.tenant = f"forbidden-{desk.tenant}"
    page = pages.open(pages.context(None if tenant == "" else desk), f"{desk.url}/page?src={src}", clock=True)
    settled(page)
    expect(page.locator("[part=title]")).to_contain_text(text)
    expect(button(page)).to_be_disabled()
    tick(page, 100_000)
    assert page.evaluate("[probe.fetches, probe.timers]") == [1, 0]
    page.get_by_role("button", name="Try now").click()
    settled(page)
    assert page.evaluate("[probe.fetches, probe.timers]") == [2, 0]
    if tenant == "":
        page.context.add_cookies([{"name": "tenant", "value": desk.tenant, "url": desk.url}])
        page.evaluate("document.querySelector('async-task').refresh()")
        settled(page)
        expect(page.locator("[part=alert]")).to_be_hidden()
        expect(button(page)).to_be_enabled()
