"""The demo's command line: every value checked, every mistake one line and exit status 2."""

from __future__ import annotations

import argparse
import math
import socket
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import msgspec

from demo import catalogue
from demo.products import MAX_PRODUCTS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from demo.catalogue import Catalogue


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line says; JSON-safe, so that it can be handed to worker processes."""

    host: str = "127.0.0.1"
    port: int = 8000
    records: int = 6_000
    latency: float = 0.05
    """Seconds a call of the remote API."""
    max_at_once: int = 100
    catalogue: str | None = None
    title_column: str | None = None
    encoding: str | None = None
    gateway_limit: float = 30.0
    """Seconds after which the synchronous version is cut off."""
    workers: int = 1
    redis: str | None = None
    """URL of the Redis that the workers share."""
    remote: str = ""
    """Base URL of the remote API."""

    def catalogues(self) -> dict[str, Catalogue]:
        """The products of each tenant: two made-up catalogues, or the first tenant's from the file.

        Raises:
            CatalogueError: the file cannot be used.
        """
        if self.catalogue is None:
            first = catalogue.generated(self.records, seed=1)
        else:
            path = Path(self.catalogue)
            first = catalogue.read(path, title_column=self.title_column, encoding=self.encoding)
        return {
            "acme": first,
            "globex": catalogue.generated(self.records, seed=2),
        }


class OneLineParser(argparse.ArgumentParser):
    """A parser whose every error is one line on standard error and exit status 2."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {' '.join(message.split())}\n")


def parse(arguments: Sequence[str] | None = None) -> Settings:
    """The settings that a command line asks for; ends the process with status 2 where it makes no sense."""
    default = Settings()
    parser = OneLineParser(
        prog="app.py",
        allow_abbrev=False,
        description="A duplicate check over a catalogue of products, each needing a call to a slow remote "
        "API: as a job at /api/duplicates/check, and synchronous at /sync/duplicates for comparison.",
    )

    def add(flag: str, kind: Callable[[str], object], value: object, text: str, metavar: str) -> None:
        shown = "" if value is None else " (default: %(default)s)"
        parser.add_argument(flag, type=kind, default=value, help=text + shown, metavar=metavar)

    add("--host", str, default.host, "address to listen on", "ADDRESS")
    add("--port", _whole(0, 65535), default.port, "port to listen on; 0: any free one", "N")
    add("--records", _whole(1, MAX_PRODUCTS), default.records, "products in a made-up catalogue", "N")
    add("--latency", _seconds(0, 60), default.latency, "how long a call to the remote API takes", "SECONDS")
    add("--max-at-once", _whole(1, 1000), default.max_at_once, "calls under way at the same time", "N")
    add("--catalogue", str, None, "a CSV file with a header line: the catalogue of acme-demo", "FILE")
    add("--title-column", str, None, "its column with the titles (default: the obvious one)", "NAME")
    add("--encoding", str, None, "its encoding (default: by its byte order mark or what fits)", "NAME")
    add(
        "--gateway-limit",
        _seconds(0.1, 3600),
        default.gateway_limit,
        "when the synchronous version is cut off, as a gateway does",
        "SECONDS",
    )
    add("--workers", _whole(1, 16), default.workers, "processes; more than one share their state", "N")
    add("--redis", str, None, "where they share it (default for several: one of their own)", "URL")
    options = parser.parse_args(arguments)
    for name in ("title_column", "encoding"):
        if getattr(options, name) is not None and options.catalogue is None:
            parser.error(f"--{name.replace('_', '-')} says how to read a file: name one by --catalogue")
    return Settings(**vars(options))


def fail(message: str) -> NoReturn:
    """End the process with one line on standard error and status 2."""
    OneLineParser(prog="app.py").error(message)


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens, or the end of the process with one clear line.

    Args:
        host: a name or an address, IPv4 or IPv6.
        port: 0 takes any free one.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
    except (OSError, UnicodeError) as error:
        fail(f"cannot listen on {host!r}: {getattr(error, 'strerror', None) or error}")
    try:
        return socket.create_server(address[:2], family=family, backlog=2048)
    except OSError as error:
        hint = "is a port between 1024 and 65535 free? choose it with --port, e.g. make demo PORT=8123"
        fail(f"cannot listen on {host} port {port}: {(error.strerror or str(error)).lower()}; {hint}")


def _whole(low: int, high: int) -> Callable[[str], int]:
    def convert(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {low} to {high}")
        return value

    return convert


def _seconds(low: float, high: float) -> Callable[[str], float]:
    def convert(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from {low:g} to {high:g}")
        return value

    return convert
