"""What `<async-task>` shows and says: button, alert, progress, messages, texts, events."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Desk, Opener, kinds, settled, tick


def poll(page: Page) -> None:
    """Let the next poll come, however far away, and be dealt with."""
    tick(page, 7_000)


def test_disabled_and_percent_while_running(visit: Opener, desk: Desk) -> None:
    """RUNNING: the button is disabled and says how far it is; then it is free again."""
    page = visit("?label=Check", clock=True)
    button = page.locator("[part=button]")
    settled(page)
    expect(button).to_have_text("Check")
    button.click()
    settled(page)
    expect(button).to_be_disabled()
    expect(button).to_have_text("Check…")
    desk.say(total=1000, advance=420)
    poll(page)
    expect(button).to_have_text("Check 42%")
    desk.say(finish=True)
    poll(page)
    expect(button).to_have_text("Check")
    expect(button).to_be_enabled()


@pytest.mark.parametrize(
    ("query", "known", "unknown"),
    [
        ("?lang=zh&label=回填", "回填中 42%", "回填中…"),
        ("?page-lang=zh-CN&label=回填", "回填中 42%", "回填中…"),
        ("?label=Backfill", "Backfill 42%", "Backfill…"),
        ("?running-label=回填中 {percent}%", "回填中 42%", "回填中…"),
        ("?running-label={label}: {processed} of {total}&label=Import", "Import: 2,100 of 5,000", None),
        ("?lang=de&label=Abgleich&running-label={label}: {processed}", "Abgleich: 2.100", None),
        ("?lang=not_a_tag&label=Odd", "Odd 42%", "Odd…"),
    ],
)
def test_running_label(visit: Opener, desk: Desk, query: str, known: str, unknown: str | None) -> None:
    """English is the default, Chinese built in, any other an attribute; no "%" without a percentage."""
    desk.say(trigger="backfill")
    page = visit(query, clock=True)
    settled(page)
    if unknown is not None:
        expect(page.locator("[part=button]")).to_have_text(unknown)
    desk.say(total=5000, advance=2100)
    poll(page)
    expect(page.locator("[part=button]")).to_have_text(known)


def test_progress_bar(visit: Opener, desk: Desk) -> None:
    """A named progressbar with processed / total; no `aria-valuenow` while nobody knows the total."""
    desk.say(trigger="backfill", advance=300)
    page = visit("?label=Check", clock=True)
    settled(page)
    bar = page.get_by_role("progressbar", name="Check")
    expect(bar).to_be_visible()
    assert bar.get_attribute("aria-valuenow") is None
    expect(page.locator("[part=counter]")).to_have_text("300 processed")
    desk.say(total=6000, advance=2220, failed=3)
    poll(page)
    expect(bar).to_have_attribute("aria-valuenow", "42")
    expect(bar).to_have_attribute("aria-valuemin", "0")
    expect(bar).to_have_attribute("aria-valuemax", "100")
    expect(page.locator("[part=counter]")).to_have_text(re.compile(r"2,52\d / 6,000 · 3 failed"))
    assert page.locator("[part=bar]").evaluate("bar => bar.style.inlineSize") == "42%"


def test_screen_readers_hear_quarters_and_the_end(visit: Opener, desk: Desk) -> None:
    """Over 100 ticks the live region changes four times: 25, 50, 75 and the end."""
    desk.say(trigger="backfill", total=100)
    page = visit("?label=Check", clock=True)
    settled(page)
    page.evaluate(
        """() => {
          window.heard = [];
          const live = document.querySelector("async-task").shadowRoot.querySelector("[role=status]");
          const observer = new MutationObserver(() => heard.push(live.textContent));
          observer.observe(live, { childList: true, characterData: true, subtree: true });
        }"""
    )
    for number in range(1, 101):
        desk.say(advance=1, **({"finish": True} if number == 100 else {}))
        poll(page)
    assert page.evaluate("heard") == ["Check 25%", "Check 50%", "Check 75%", "Check: done"]


def test_success_fades_after_three_seconds(visit: Opener, desk: Desk) -> None:
    """A success is shown for 3 s; a page that comes later does not show it at all."""
    desk.say(trigger="backfill", total=10)
    page = visit("?success-label=All {processed} checked", clock=True)
    settled(page)
    desk.say(advance=10, finish=True)
    poll(page)
    alert = page.locator("[part=alert]")
    expect(alert).to_have_attribute("data-kind", "success")
    expect(page.locator("[part=title]")).to_have_text("All 10 checked")
    expect(page.get_by_role("progressbar")).to_be_hidden()
    tick(page, 2_900)
    expect(alert).to_be_visible()
    tick(page, 200)
    expect(alert).to_be_hidden()
    page.reload()
    settled(page)
    expect(page.locator("async-task")).to_have_attribute("status", "SUCCESS")
    expect(alert).to_be_hidden()


def test_failure_stays_until_dismissed(visit: Opener, desk: Desk) -> None:
    """The reason is what the job said; it outlives a reload, and goes when it is dismissed."""
    desk.say(trigger="backfill", total=10, advance=4)
    page = visit("?label=Check&error-label=No luck", clock=True)
    settled(page)
    desk.say(fail="The remote API answered 503.")
    poll(page)
    alert, detail = page.locator("[part=alert]"), page.locator("[part=detail]")
    for _ in range(2):
        expect(alert).to_have_attribute("data-kind", "failed")
        expect(page.locator("[part=title]")).to_have_text("No luck")
        expect(detail).to_have_text("The remote API answered 503.")
        tick(page, 60_000)
        expect(detail).to_be_visible()
        page.reload()
        settled(page)
    page.get_by_role("button", name="Dismiss").click()
    expect(alert).to_be_hidden()
    assert kinds(page) == ["task-change"], "it ended before the reload"


def test_failure_goes_when_retried(visit: Opener, desk: Desk) -> None:
    """A retry replaces the failure by progress; a second failure is shown even if the first was dismissed."""
    page = visit(clock=True)
    for reason in ("first", "second"):
        settled(page)
        page.locator("[part=button]").click()
        settled(page)
        expect(page.locator("[part=alert]")).to_have_attribute("data-kind", "running")
        desk.say(fail=reason)
        poll(page)
        expect(page.locator("[part=detail]")).to_have_text(reason)
        page.get_by_role("button", name="Dismiss").click()
    seen = kinds(page)
    assert (seen.count("task-error"), seen.count("task-success"), seen.count("task-settled")) == (2, 0, 2)


def test_texts_are_text(visit: Opener, desk: Desk) -> None:
    """Markup in labels, messages and reasons is shown, not parsed."""
    evil = "<img src=x onerror=alert(1)>"
    desk.say(trigger="backfill", message=evil)
    page = visit("?label=<b>bold</b>", clock=True)
    settled(page)
    expect(page.locator("[part=detail]")).to_have_text(evil)
    desk.say(fail=evil)
    poll(page)
    expect(page.locator("[part=detail]")).to_have_text(evil)
    expect(page.locator("[part=button]")).to_have_text("<b>bold</b>")
    assert page.locator("async-task img, async-task b").count() == 0


def test_events_bubble_out_of_shadow_trees(visit: Opener, desk: Desk) -> None:
    """Events are composed, and carry what a host needs."""
    desk.say(trigger="backfill", total=100, advance=42)
    page = visit("?n=0", clock=True)
    page.evaluate(
        """() => {
          window.seen = [];
          addEventListener("task-change", (event) => {
            seen.push([event.target.localName, Object.keys(event.detail)]);
          });
          const host = document.querySelector("main").appendChild(document.createElement("div"));
          host.attachShadow({ mode: "open" }).innerHTML = "<async-task src=/api/backfill></async-task>";
        }"""
    )
    settled(page)
    assert page.evaluate("seen") == [["div", ["snapshot", "problem", "pending", "lost", "runId"]]]


def test_host_may_trigger_from_an_event(visit: Opener, desk: Desk) -> None:
    """A host that starts the next run when one has settled: the lock is free, and every element shows it."""
    first = desk.say(trigger="backfill")
    page = visit("?n=2", clock=True)
    settled(page)
    page.evaluate("addEventListener('task-settled', (event) => void event.target.trigger(), { once: true })")
    desk.say(finish=True, hold="POST")
    page.clock.run_for(1_250)
    desk.log(seen=3)
    for button in page.locator("[part=button]").all():
        expect(button).to_have_text("Run…")
    desk.say(release=True)
    settled(page)
    expect(page.locator("async-task[status=RUNNING]")).to_have_count(2)
    assert desk.run_id != first
    assert desk.count("POST") == 1


def test_properties_set_before_the_element_is_defined(visit: Opener, desk: Desk) -> None:
    """Headers and payload given before the script has loaded count, without a request in between."""
    page = visit("?n=0")
    page.evaluate(
        """async () => {
          const early = document.createElement("late-task");
          early.setAttribute("src", "/api/quick");
          early.headers = { "X-Early": "yes" };
          early.payload = { a: 7 };
          document.querySelector("main").append(early);
          const { AsyncTaskElement } = await import("/static/asynctask.js");
          customElements.define("late-task", class extends AsyncTaskElement {});
        }"""
    )
    settled(page)
    page.locator("[part=button]").click()
    expect(page.locator("late-task")).to_have_attribute("status", "SUCCESS")
    assert page.evaluate("document.querySelector('late-task').snapshot.result") == {"a": 7}
    assert [entry["method"] for entry in desk.log()][:2] == ["GET", "POST"]


def test_slots_and_parts(visit: Opener, desk: Desk) -> None:
    """The host's own content goes beside the button, into it, and into the alert of its state."""
    desk.say(trigger="backfill")
    page = visit("?n=0", clock=True)
    page.evaluate(
        """document.querySelector("main").innerHTML = `<async-task src=/api/backfill>
          <p>About it</p> <i slot=icon>*</i> <em slot=running>Go on</em> <em slot=failed>Ask us</em>
        </async-task>`"""
    )
    settled(page)
    for text, shown in (("About it", True), ("*", True), ("Go on", True), ("Ask us", False)):
        expect(page.get_by_text(text, exact=True)).to_be_visible(visible=shown)
    desk.say(fail="x")
    poll(page)
    expect(page.get_by_text("Go on")).to_be_hidden()
    expect(page.get_by_text("Ask us")).to_be_visible()


def test_focus_comes_back(visit: Opener, desk: Desk) -> None:
    """Who started with the keyboard finds the focus on the button when it is enabled again."""
    page = visit(clock=True)
    settled(page)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    settled(page)
    expect(page.locator("async-task")).to_have_attribute("status", "RUNNING")
    desk.say(finish=True)
    poll(page)
    expect(page.locator("[part=button]")).to_be_focused()


def test_without_a_source(visit: Opener, desk: Desk) -> None:
    """An element that was not told its job yet waits for it, disabled."""
    page = visit("?src=")
    expect(page.locator("[part=button]")).to_be_disabled()
    page.evaluate("document.querySelector('async-task').setAttribute('src', '/api/backfill')")
    expect(page.locator("async-task")).to_have_attribute("status", "IDLE")
    expect(page.locator("[part=button]")).to_be_enabled()
