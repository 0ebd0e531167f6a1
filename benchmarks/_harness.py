"""What the benchmarks share: turns, medians with their spread, tables, `--json` and `--quick`.

The machines are shared and noisy, so a figure is only worth what the reference beside it is worth: every
benchmark runs all its cases in turn, several times over, and compares within a turn. A benchmark is run
from the root of the repository as a module, `python -m benchmarks.NAME`, and looks like this:

    options = parser(__doc__).parse_args()
    samples = Samples()
    for name, case in turns(CASES, 1 if options.quick else options.repeats):
        samples.add(name, {"seconds": await case()})
    print(table(["client", "seconds"], [[n, f"{samples[n, 'seconds']:.2f}"] for n in CASES]))
    finish(options, samples)
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence

C = TypeVar("C")

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Figure:
    """The median of some samples and the range they lie in. Format it like a float: `f"{figure:.2f}"`."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Figure:
        return cls(statistics.median(values), min(values), max(values))

    def __format__(self, spec: str) -> str:
        if self.low == self.high:
            return format(self.median, spec)
        return f"{self.median:{spec}} ({self.low:{spec}} to {self.high:{spec}})"


class Samples:
    """What was measured: for each case and figure, one value a turn, in the order of the turns."""

    def __init__(self) -> None:
        self._values: dict[str, dict[str, list[float]]] = {}

    def add(self, case: str, figures: Mapping[str, float]) -> None:
        """Add one turn's figures of one case."""
        for name, value in figures.items():
            self._values.setdefault(case, {}).setdefault(name, []).append(value)

    def __getitem__(self, key: tuple[str, str]) -> Figure:
        case, figure = key
        return Figure.of(self._values[case][figure])

    def __contains__(self, key: tuple[str, str]) -> bool:
        case, figure = key
        return figure in self._values.get(case, {})

    def ratio(self, case: str, reference: str, figure: str) -> Figure:
        """`case` over `reference`, turn by turn, so that a machine that slows down slows both."""
        pairs = zip(self._values[case][figure], self._values[reference][figure], strict=True)
        return Figure.of([mine / theirs for mine, theirs in pairs])

    def as_json(self) -> dict[str, Any]:
        return {
            case: {name: {**asdict(Figure.of(v)), "values": v} for name, v in figures.items()}
            for case, figures in self._values.items()
        }


def turns(cases: Mapping[str, C], repeats: int) -> Iterator[tuple[str, C]]:
    """Every case once, then every case again, `repeats` times; every second turn goes backwards.

    Args:
        cases: what to run, by name.
        repeats: the number of turns.
    """
    order = list(cases.items())
    for turn in range(repeats):
        yield from reversed(order) if turn % 2 else order


def parser(description: str | None, *, repeats: int = 5) -> argparse.ArgumentParser:
    """The options that every benchmark has; add your own to what is returned."""
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--json", type=Path, metavar="FILE", help="write machine, options and samples there")
    made.add_argument("--quick", action="store_true", help="a smoke test under 20 s; its figures say nothing")
    made.add_argument(
        "--repeats", type=int, default=repeats, metavar="N", help="turns (default: %(default)s)"
    )
    return made


def machine(*packages: str) -> dict[str, str]:
    """Where the figures were made: processor, cores, system, Python and the versions of `packages`."""
    model = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), model)
    found = {
        "processor": model,
        "cores": str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()),
        "system": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
    }
    for package in packages:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table that also reads well in a terminal. The first column is aligned left."""
    cells = [list(headers), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(headers))]

    def line(row: Sequence[str]) -> str:
        padded = [row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))]
        return f"| {' | '.join(padded)} |"

    rule = "|".join(["-" * (widths[0] + 2), *("-" * (w + 1) + ":" for w in widths[1:])])
    return "\n".join([line(cells[0]), f"|{rule}|", *map(line, cells[1:])])


def finish(options: argparse.Namespace, samples: Samples, *packages: str, **more: object) -> None:
    """Write the JSON file, when one was asked for.

    Args:
        options: what `parser()` parsed.
        samples: what was measured.
        packages: distributions whose versions the figures depend on.
        more: anything else worth keeping, as JSON.
    """
    if options.json is None:
        return
    used = {name: value for name, value in vars(options).items() if not isinstance(value, Path)}
    body = {"machine": machine(*packages), "options": used, "samples": samples.as_json(), **more}
    options.json.write_text(json.dumps(body, indent=1, default=str) + "\n")
    print(f"written: {options.json}")


def run(main: Coroutine[Any, Any, C]) -> C:
    """Run a coroutine to its end, on uvloop where that is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    return uvloop.run(main)


def free_port() -> int:
    """A port of 127.0.0.1 that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def server(*arguments: str) -> Iterator[str]:
    """Run `python ARGUMENTS…` as a process of its own until the block ends.

    Args:
        arguments: the process prints one line when it is ready to serve.

    Returns:
        That line, for example the address.
    """
    with subprocess.Popen(
        [sys.executable, *arguments], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        try:
            assert process.stdout is not None
            ready = process.stdout.readline().strip()
            if not ready:
                raise RuntimeError(f"{' '.join(arguments)} ended with {process.wait()} before it was ready")
            yield ready
        finally:
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
