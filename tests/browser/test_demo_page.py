"""The demo page: what surrounds the element, and the whole of it on the real demo application."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import ROOT, Desk, Pages, settled, tick


def test_the_list_refreshes_by_itself(pages: Pages, desk: Desk) -> None:
    """When the check has ended the list is loaded again, once, without anybody's doing."""
    page = pages.open(pages.context(desk), desk.url, clock=True)
    settled(page)
    expect(page.get_by_text("Not checked yet.")).to_be_visible()
    page.get_by_role("button", name="Check for duplicates").click()
    settled(page)
    desk.say(total=6000, advance=6000, finish=True)
    tick(page, 7_000)
    expect(page.locator("#summary")).to_have_text("10 groups, 12 duplicates")
    expect(page.locator("#groups .group")).to_have_count(10)
    lists = [entry for entry in desk.log() if entry["path"] == "/api/duplicates"]
    assert len(lists) == 2


def test_without_the_assessment(pages: Pages, desk: Desk) -> None:
    """The card of the assessment is there with its endpoint, and not without."""
    pages.failures_expected = True
    context = pages.context(desk)
    expect(pages.open(context, desk.url).get_by_role("heading", name="Is a job warranted?")).to_be_visible()
    context.route("**/assessment", lambda route: route.fulfill(status=404, json={}))
    page = pages.open(context, desk.url)
    settled(page)
    expect(page.get_by_role("heading", name="Is a job warranted?")).to_be_hidden()


@pytest.fixture(scope="module")
def demo(browser: Browser) -> Iterator[str]:
    """The demo as `make demo` starts it, with fewer products and a short limit of the gateway; its URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = ["--records", "120", "--latency", "0.1", "--max-at-once", "20", "--gateway-limit", "1"]
    process = subprocess.Popen(
        [sys.executable, "app.py", "--port", str(port), *options], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.search(r"http://[\d.:]+", line)
    assert found, line
    yield found[0]
    process.terminate()
    process.communicate(timeout=15)


def test_a_check_from_start_to_end(pages: Pages, demo: str) -> None:
    """On the real demo: click, progress, success, the duplicates; the other tenant has none of it."""
    context = pages.context(None)
    page = pages.open(context, demo)
    page.get_by_role("button", name="Check for duplicates").click()
    expect(page.locator("async-task")).to_have_attribute("status", "RUNNING")
    second = pages.open(context, demo)
    expect(second.locator("async-task")).to_have_attribute("status", "RUNNING")
    run_id = "document.querySelector('async-task').snapshot.runId"
    assert page.evaluate(run_id) == second.evaluate(run_id)
    for tab in (page, second):
        expect(tab.locator("async-task")).to_have_attribute("status", "SUCCESS")
        expect(tab.locator("#groups .group").first).to_be_visible()
    second.get_by_text("Globex").click()
    expect(second.locator("async-task")).to_have_attribute("status", "IDLE")
    expect(second.get_by_text("Not checked yet.")).to_be_visible()
    second.reload()
    expect(second.get_by_role("radio", name="Globex")).to_be_checked()
    expect(second.locator("async-task")).to_have_attribute("status", "IDLE")


def test_the_synchronous_version_is_cut_off(pages: Pages, demo: str) -> None:
    """The same work in the request ends in a 504 at the gateway's limit, with nothing to show for it."""
    pages.failures_expected = True
    page = pages.open(pages.context(None), demo)
    page.get_by_role("button", name="Run in the request").click()
    expect(page.get_by_role("button", name="Run in the request")).to_be_disabled()
    expect(page.locator("#sync-result")).to_contain_text("504")
    expect(page.get_by_role("button", name="Run in the request")).to_be_enabled()
