"""Run every benchmark, one after the other, and write what they print into `benchmarks/README.md`.

    python -m benchmarks [--quick] [--repeats N] [NAME …]

With `--quick` nothing is written: it only shows that each still runs.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path
from time import perf_counter

from benchmarks._harness import ROOT, machine

HERE = ROOT / "benchmarks"
PAGE = HERE / "README.md"


def names() -> list[str]:
    """The benchmarks: the modules here that are not shared parts."""
    return sorted(path.stem for path in HERE.glob("*.py") if not path.stem.startswith("_"))


def section(page: str, name: str, text: str) -> str:
    """Replace what stands between the markers of `name`; a page without them is an error."""
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    if not pattern.search(page):
        raise SystemExit(f"{PAGE.name} has no markers for {name}: add <!-- {name} --> and <!-- /{name} -->")
    return pattern.sub(lambda found: f"{found[1]}{text.strip()}\n{found[2]}", page)


def run(name: str, quick: bool, repeats: int | None) -> str:
    """Run one benchmark, show what it prints, and return that; ends the program when it fails."""
    command = [sys.executable, "-m", f"benchmarks.{name}"]
    command += ["--quick"] if quick else ["--json", str(HERE / "results" / f"{name}.json")]
    command += [] if repeats is None else ["--repeats", str(repeats)]
    print(f"\n{' '.join(command[1:])}", flush=True)
    began = perf_counter()
    ran = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    print(f"{ran.stdout}({perf_counter() - began:.0f} s)", flush=True)
    if ran.returncode:
        raise SystemExit(f"{name} ended with status {ran.returncode}")
    return "\n".join(line for line in ran.stdout.splitlines() if not line.startswith("written: "))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("names", nargs="*", metavar="NAME", help="which benchmarks; all by default")
    options.add_argument("--quick", action="store_true", help="a smoke test that writes nothing")
    options.add_argument("--repeats", type=int, metavar="N", help="turns; each benchmark has its default")
    chosen = options.parse_args()
    if unknown := set(chosen.names) - set(names()):
        options.error(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(names())}")
    (HERE / "results").mkdir(exist_ok=True)
    for name in chosen.names or names():
        text = run(name, chosen.quick, chosen.repeats)
        if not chosen.quick:
            PAGE.write_text(section(Path(PAGE).read_text(), name, text))
    if not chosen.quick:
        facts = ", ".join(
            f"{what} {value}" for what, value in machine("uvloop", "starlette", "httpx").items()
        )
        PAGE.write_text(section(PAGE.read_text(), "machine", facts))


if __name__ == "__main__":
    main()
