"""Faults beyond the page: a server that dies and comes back, a gateway that gives up."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import Desk, Pages, Server, kinds, need, settled, tick

NGINX = """
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 64; }}
http {{
  access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://127.0.0.1:{upstream}; proxy_read_timeout 1s; proxy_set_header Host $http_host;
    }}
  }}
}}
"""


@pytest.fixture
def mortal(browser: Browser) -> Iterator[Server]:
    """A server of this test's own, to be killed."""
    server = Server()
    yield server
    server.kill()


@pytest.fixture(scope="package")
def gateway(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real nginx before the server, which answers 504 after a second; its URL."""
    program = need("nginx", "the gateway test needs nginx: apt install nginx")
    folder = tmp_path_factory.mktemp("nginx")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = folder / "nginx.conf"
    config.write_text(NGINX.format(folder=folder, port=port, upstream=server.port))
    process = subprocess.Popen([program, "-p", folder, "-c", config], stderr=subprocess.DEVNULL)
    try:
        wait_for_port(port, process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


def wait_for_port(port: int, process: subprocess.Popen[bytes]) -> None:
    """Return as soon as connections are taken."""
    while process.poll() is None:
        with socket.socket() as attempt:
            if attempt.connect_ex(("127.0.0.1", port)) == 0:
                return
    raise AssertionError(f"nginx ended with status {process.returncode}")


def test_server_killed_and_restarted_in_mid_run(pages: Pages, mortal: Server) -> None:
    """The connection is lost, the progress stays; back again, the server knows of no run: IDLE, and said."""
    pages.failures_expected = True
    desk = Desk(mortal.url)
    run_id = desk.say(trigger="backfill", total=100, advance=42)
    page = pages.open(pages.context(desk), f"{mortal.url}/page?label=Check", clock=True)
    settled(page)
    mortal.kill()
    for _ in range(3):
        tick(page, 7_000)
    expect(page.locator("[part=title]")).to_have_text("Connection lost. Trying again…")
    expect(page.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "42")
    expect(page.locator("async-task")).to_have_attribute("status", "RUNNING")
    mortal.start()
    tick(page, 10_000)
    expect(page.locator("async-task")).to_have_attribute("status", "IDLE")
    expect(page.locator("[part=title]")).to_have_text(
        "Check: the server no longer knows this run. Start it again."
    )
    seen = kinds(page)
    assert (seen.count("task-settled"), seen.count("task-error")) == (1, 0)
    assert ["task-settled", run_id] in page.evaluate("probe.events")
    page.locator("[part=button]").click()
    expect(page.locator("[part=alert]")).to_have_attribute("data-kind", "running")
    desk.close()


def test_another_run_in_its_place_after_a_restart(pages: Pages, mortal: Server) -> None:
    """Restarted, and somebody has started a new run meanwhile: the old one is over, the new one followed."""
    pages.failures_expected = True
    desk = Desk(mortal.url)
    old = desk.say(trigger="backfill")
    page = pages.open(pages.context(desk), f"{mortal.url}/page", clock=True)
    settled(page)
    mortal.kill()
    mortal.start()
    new = desk.say(trigger="backfill")
    tick(page, 7_000)
    expect(page.locator("async-task")).to_have_attribute("status", "RUNNING")
    desk.say(finish=True)
    tick(page, 7_000)
    ends = [run for kind, run in page.evaluate("probe.events") if kind == "task-settled"]
    assert ends == [old, new]
    desk.close()


def test_gateway_times_out_in_mid_run(pages: Pages, desk: Desk, gateway: str) -> None:
    """A poll that nginx answers with 504 is backed off from; the page stays RUNNING and then sees the end."""
    pages.failures_expected = True
    desk.say(trigger="backfill", total=100, advance=42)
    page = pages.open(pages.context(desk), f"{gateway}/page", clock=True)
    settled(page)
    desk.say(hold="GET")
    with page.expect_response("**/status") as answered:
        page.clock.run_for(7_000)
    assert answered.value.status == 504
    settled(page)
    desk.say(release=True)
    expect(page.locator("[part=button]")).to_have_text("Run 42%")
    desk.say(finish=True)
    tick(page, 1_250)
    expect(page.locator("async-task")).to_have_attribute("status", "SUCCESS")
    assert kinds(page).count("task-settled") == 1
    assert page.evaluate("probe.most") == 1


def test_gateway_times_out_on_the_trigger(pages: Pages, desk: Desk, gateway: str) -> None:
    """A trigger that nginx answers with 504 while the run has started: the page finds the run by itself."""
    pages.failures_expected = True
    page = pages.open(pages.context(desk), f"{gateway}/page", clock=True)
    settled(page)
    desk.say(hold="POST")
    with page.expect_response("**/backfill") as answered:
        page.locator("[part=button]").click()
    assert answered.value.status == 504
    settled(page)
    desk.say(release=True)
    expect(page.locator("async-task")).to_have_attribute("status", "RUNNING")
    expect(page.locator("[part=alert]")).to_have_attribute("data-kind", "running")
    desk.say(finish=True)
    tick(page, 1_250)
    expect(page.locator("async-task")).to_have_attribute("status", "SUCCESS")
