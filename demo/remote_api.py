"""The slow remote API that the duplicate check calls: one HTTP request for each product.

It runs in a process of its own, so that it shares neither the event loop nor the interpreter lock with
the demo, and speaks real HTTP on a port of its own:

    POST /fingerprint  {"title": "Haldén Kettle, 1.5 l"}  ->  {"fingerprint": "5f0c…"}
    GET  /stats                                           ->  {"calls": 6000, "peak": 100}

Only this service knows which spellings of a title mean the same product, so the check cannot do without it.
By hand: `python -m demo.remote_api --port 9000 --latency 0.05`.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import os
import re
import socket
import subprocess
import sys
import threading
import unicodedata
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.routing import Route

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_BODY = 1 << 20  # bytes

_NUMBER_AND_UNIT = re.compile(r"(\d)\s+(?=(?:ml|l|g|kg|cm|mm|m|w|gb|tb|pcs)\b)")
_NOT_A_WORD = re.compile(r"[^\w.]+|(?<!\d)\.|\.(?!\d)|_")


def fingerprint(title: str) -> str:
    """The same text for every spelling of one product.

    Upper case, accents, punctuation, the order of the words and the space before a unit do not count.

    Args:
        title: as it stands in the catalogue.

    Returns:
        32 hexadecimal digits.
    """
    plain = "".join(
        c for c in unicodedata.normalize("NFKD", title.casefold()) if not unicodedata.combining(c)
    )
    joined = _NUMBER_AND_UNIT.sub(r"\1", plain.replace("&", " and "))
    words = sorted(word for word in _NOT_A_WORD.split(joined) if word)
    text = " ".join(words) or plain.strip()  # a title of nothing but signs is told apart by its signs
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class _Question(msgspec.Struct):
    title: str


def create_app(latency: float) -> Starlette:
    """The service as an ASGI application.

    Args:
        latency: seconds that each call takes.
    """
    at_once = calls = peak = 0

    async def answer(request: Request) -> JSONResponse:
        nonlocal at_once, calls, peak
        try:
            body = await request.body()
        except ClientDisconnect:  # the check was cancelled; nobody reads this
            return JSONResponse({"error": "the client went away"}, 400)
        if len(body) > MAX_BODY:
            return JSONResponse(
                {"error": f"the body has {len(body)} bytes, at most {MAX_BODY} are read"}, 413
            )
        try:
            question = msgspec.json.decode(body, type=_Question)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            return JSONResponse({"error": f'send {{"title": "…"}}: {error}'}, 400)
        at_once += 1
        calls += 1
        peak = max(peak, at_once)
        try:
            await asyncio.sleep(latency)
        finally:
            at_once -= 1
        return JSONResponse({"fingerprint": fingerprint(question.title)})

    async def stats(request: Request) -> JSONResponse:
        return JSONResponse({"calls": calls, "peak": peak})

    return Starlette(routes=[Route("/fingerprint", answer, methods=["POST"]), Route("/stats", stats)])


@contextmanager
def running(latency: float) -> Iterator[str]:
    """Run the service in a process of its own for as long as the block lasts.

    Args:
        latency: seconds that each call takes.

    Yields:
        its base URL.

    Raises:
        RuntimeError: the process ended before it listened.
    """
    command = [sys.executable, "-m", "demo.remote_api", "--port=0", f"--latency={latency!r}", "--lifeline"]
    # A session of its own: Ctrl-C in a terminal reaches the demo alone, which then ends this process itself.
    with subprocess.Popen(
        command,
        cwd=Path(__file__).resolve().parent.parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            url = process.stdout.readline().strip()
            if not url:
                raise RuntimeError(f"the remote API did not start: {' '.join(command)} printed no address")
            yield url
        finally:
            process.stdin.close()
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()


def main(arguments: list[str] | None = None) -> None:
    """Serve until interrupted, or with `--lifeline` until standard input ends."""
    parser = argparse.ArgumentParser(
        prog="python -m demo.remote_api", description="The demo's slow remote API."
    )
    parser.add_argument("--port", type=int, default=9000, help="0: any free one (default: %(default)s)")
    parser.add_argument("--latency", type=float, default=0.05, help="seconds a call (default: %(default)s)")
    parser.add_argument("--lifeline", action="store_true", help="end when standard input is closed")
    options = parser.parse_args(arguments)
    try:
        listener = socket.create_server(("127.0.0.1", options.port), backlog=2048)
    except (OSError, OverflowError) as error:
        parser.error(f"cannot listen on 127.0.0.1 port {options.port}: {error}")
    # Connections are kept for longer than any client keeps them, so that none is closed under a request.
    server = uvicorn.Server(
        uvicorn.Config(
            create_app(options.latency),
            lifespan="off",
            log_level="warning",
            access_log=False,
            timeout_keep_alive=75,
        )
    )
    if options.lifeline:

        def watch() -> None:
            sys.stdin.read()
            os._exit(
                0
            )  # it holds nothing that would have to be put in order, and nobody waits for its answers

        threading.Thread(target=watch, daemon=True).start()
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    with suppress(KeyboardInterrupt):
        server.run(sockets=[listener])


if __name__ == "__main__":
    main()
