"""Run the demo in this process: logging, the lines to try it with, and an end without a traceback."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import uvicorn

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping

    from starlette.types import ASGIApp

    from demo.catalogue import Catalogue
    from demo.options import Settings

TRY = """\
# Start the check: 202 at once. Again while it runs: "started":false and the same runId.
curl -i -X POST {acme} {url}/api/duplicates/check
# How far it is, then SUCCESS with a summary.
curl -s {acme} {url}/api/duplicates/check/status
# The other tenant sees nothing of it: IDLE.
curl -s {globex} {url}/api/duplicates/check/status
# The list that the check refreshes.
curl -s {acme} '{url}/api/duplicates?limit=3'
# Is it worth being a job?
curl -s {acme} {url}/api/duplicates/check/assessment
# The wrong way, for comparison: one call after the other, 504 after {limit:g} s.
curl -i {acme} {url}/sync/duplicates
"""


def announce(settings: Settings, catalogues: Mapping[str, Catalogue], listener: socket.socket) -> None:
    """Print what is served and the lines to try it with."""
    host, port = listener.getsockname()[:2]
    shown = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    url = f"http://[{shown}]:{port}" if ":" in shown else f"http://{shown}:{port}"
    print(f"Demo on {url} (Ctrl-C ends it)\n")
    if shown != host:
        print("  Other machines reach it too, and its tokens are no secret.\n")
    for name, catalogue in catalogues.items():
        print(f"  {name + '-demo':<11}  {len(catalogue.titles):,} products ({catalogue.source})")
    if settings.redis is not None:
        print(f"  {settings.workers} processes share one Redis; the header X-Worker tells which one answered")
    calls = max(len(catalogue.titles) for catalogue in catalogues.values())
    seconds = calls * settings.latency
    print(
        f"  remote API   {settings.remote}, {settings.latency * 1000:g} ms a call: {calls:,} calls take "
        f"{seconds:,.1f} s one by one, {seconds / settings.max_at_once:,.1f} s at best by "
        f"{settings.max_at_once} at once\n"
    )
    acme, globex = (f"-H 'Authorization: Bearer {name}-demo'" for name in catalogues)
    print(TRY.format(acme=acme, globex=globex, url=url, limit=settings.gateway_limit), flush=True)


def configure_logging() -> None:
    """One line a record on standard error, with the job, run and tenant that it belongs to."""
    handler = logging.StreamHandler()
    handler.setFormatter(
        logging.Formatter(
            "%(asctime)s %(levelname)s [%(job)s %(run_id)s %(tenant)s] %(message)s",
            # asynctask's own filter sets these while the application's lifespan lasts.
            defaults={"job": "-", "run_id": "-", "tenant": "-"},
        )
    )
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    # Requests that are still held open 2 s after Ctrl-C are cut off. uvicorn says so in one line, and
    # then logs the cancellation of each as if the application had failed.
    logging.getLogger("uvicorn.error").addFilter(
        lambda record: not (record.exc_info and record.exc_info[0] is asyncio.CancelledError)
    )
    for chatty in ("httpx", "uvicorn"):  # a line for each of 6,000 calls; the start, which is announced above
        logging.getLogger(chatty).setLevel(logging.WARNING)


def serve(app: ASGIApp, listener: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM, then end in order.

    Args:
        app: with a lifespan.
        listener: a socket that listens already.

    Raises:
        SystemExit: status 3, the application's lifespan did not start.
    """
    configure_logging()
    server = uvicorn.Server(
        uvicorn.Config(app, lifespan="on", log_config=None, access_log=False, timeout_graceful_shutdown=2)
    )
    # uvicorn handles the signal itself and raises it once more when it is done: that is no error here.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with suppress(KeyboardInterrupt):
        server.run(sockets=[listener])
    if not server.started:
        sys.exit(3)
