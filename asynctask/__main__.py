"""The command line: `python -m asynctask assess` says whether an operation should be a job."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import textwrap
from typing import TYPE_CHECKING, Any, Final, NoReturn, TextIO

import msgspec

from asynctask.condition import SPECIFICATION, Assessment, assess
from asynctask.errors import ConfigurationError
from asynctask.grid import COLOURS, cells, draw, paint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_ASCII: Final = str.maketrans({"×": "x", "µ": "u", "…": "...", "┃": "|", "━": "-", "┏": "+", "┛": "+"})
_EXAMPLE: Final = "python -m asynctask assess --records 6000 --latency 0.05 --at-once 100"


class _Parser(argparse.ArgumentParser):
    """argparse, but an error is one line: the usage above it would bury it."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message}\n")


def _number(kind: Callable[[str], Any], example: str) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        try:
            return kind(text)
        except ValueError:
            shown = text if len(text) <= 40 else f"{text[:40]}…"
            raise argparse.ArgumentTypeError(f"{shown!r} is not a number such as {example}") from None

    return parse


def parser() -> argparse.ArgumentParser:
    """The options; what an option means is said in `Condition.assess`."""
    count, seconds = _number(int, "6000"), _number(float, "0.05")
    top = _Parser(prog="python -m asynctask", description="Is async warranted?", allow_abbrev=False)
    commands = top.add_subparsers(dest="command", title="commands", metavar="command", parser_class=_Parser)
    sub = commands.add_parser(
        "assess",
        help="say whether an operation should be answered in the request, waited for, or made a job",
        description="Says whether an operation should be answered in the request (sync), answered\n"
        "in place with `Prefer: wait` (wait), or made a job.",
        epilog=f"example:\n  {_EXAMPLE}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    sub.add_argument("--records", type=count, metavar="N", help="records that one operation processes")
    sub.add_argument("--latency", type=seconds, metavar="S", help="of one remote call, in seconds")
    sub.add_argument("--calls", type=count, metavar="N", help="remote calls in all, when not one a record")
    sub.add_argument(
        "--at-once",
        type=count,
        metavar="N",
        help=f"calls under way at the same time (default: {SPECIFICATION.at_once}, as in Run.map)",
    )
    sub.add_argument(
        "--timeouts-seen",
        type=count,
        default=0,
        metavar="N",
        help="how often it ended in a 502, 504 or timeout",
    )
    sub.add_argument(
        "--users-say-it-hangs", action="store_true", help="stuck, spinning, no answer after a click"
    )
    sub.add_argument(
        "--grid", action="store_true", help="print the table of sizes and latencies, with the 5 s line in it"
    )
    sub.add_argument("--json", action="store_true", help="print JSON instead of words")
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: by default those of the process.

    Returns:
        The exit status: 0, or 2 when an argument is unfit or the output cannot be written.
    """
    top = parser()
    options = top.parse_args(arguments)
    if options.command is None:
        top.error(f"nothing to do; for example: {_EXAMPLE}")
    given = (options.records, options.latency, options.calls)
    asked = given != (None, None, None) or options.timeouts_seen != 0 or options.users_say_it_hangs
    prog = f"{top.prog} assess"
    if not asked and not options.grid:
        top.exit(2, f"{prog}: error: nothing to assess; for example: {_EXAMPLE}\n")
    try:
        text = _answer(options, asked, _wants_colour(sys.stdout))
    except ConfigurationError as error:
        name, rest = str(error).split(" ", 1)
        top.exit(2, f"{prog}: error: --{name.replace('_', '-')} {rest}\n")
    return _write(prog, text)


def _answer(options: argparse.Namespace, asked: bool, colour: bool) -> str:
    found = assess(
        records=options.records,
        latency=options.latency,
        calls=options.calls,
        at_once=options.at_once,
        timeouts_seen=options.timeouts_seen,
        users_say_it_hangs=options.users_say_it_hangs,
    )
    at_once = options.at_once or SPECIFICATION.at_once
    size = found.records if found.calls is None else found.calls
    grid = cells(SPECIFICATION, at_once, records=size, latency=options.latency) if options.grid else []
    if options.json:
        body = msgspec.to_builtins(found) if asked else {}
        if options.grid:
            body["grid"] = [cell for row in grid for cell in row]
        return msgspec.json.format(msgspec.json.encode(body), indent=2).decode()
    parts = [_in_words(found, colour)] if asked else []
    if options.grid:
        chosen = None if size is None or options.latency is None else (size, options.latency)
        parts.append(draw(grid, SPECIFICATION, at_once, chosen=chosen, colour=colour))
    return "\n\n".join(parts)


def _in_words(found: Assessment, colour: bool) -> str:
    """The verdict and its reasons; on a terminal no word is cut in two, in a pipe it is one line."""
    text = f"{found.verdict}: {found}"
    if sys.stdout is not None and sys.stdout.isatty():
        text = textwrap.fill(text, max(20, shutil.get_terminal_size().columns - 1), subsequent_indent="  ")
    painted = paint(found.verdict, COLOURS[found.verdict], colour) + text.removeprefix(found.verdict)
    return "\n".join([painted, *(f"  - {reason}" for reason in found.reasons)])


def _wants_colour(stream: TextIO | None) -> bool:
    """Colour on a terminal only, unless the environment says otherwise (no-color.org, force-color.org)."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return os.environ.get("TERM") != "dumb" and stream is not None and stream.isatty()


def _write(prog: str, text: str) -> int:
    """Print, and return the exit status: a reader that has gone away, as `head` does, is no error of ours."""
    if sys.stdout is None:
        return 0
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        text = text.translate(_ASCII)
    try:
        print(text, flush=True)
    except OSError as error:
        # The interpreter flushes once more at its end; what is left must find a place to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            print(f"{prog}: error: cannot write: {error.strerror}", file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
