"""The command line, run as users run it: a process of its own, a pipe, a terminal."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from asynctask.__main__ import main

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ("--records", "6000", "--latency", "0.05", "--at-once", "100")
WORDS = (
    "6,000 × 50 ms is 300 s one by one, 3.1 s at 100 at once: "
    "in scope, but stay synchronous at that concurrency"
)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "asynctask", *arguments]


def environment(**more: str) -> dict[str, str]:
    inherited = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    return {**inherited, "TERM": "xterm", "PYTHONIOENCODING": "utf-8", **more}


def run(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        capture_output=True,
        encoding="utf-8",
        cwd=ROOT,
        env=environment(**more),
        timeout=60,
    )


def on_a_terminal(*arguments: str, **more: str) -> str:
    """What the command writes when its standard output is a terminal."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        command(*arguments), stdout=theirs, stdin=theirs, cwd=ROOT, env=environment(COLUMNS="80", **more)
    ) as process:
        os.close(theirs)
        written = b""
        try:
            while chunk := os.read(ours, 65_536):
                written += chunk
        except OSError:  # how Linux reports that the other side has been closed
            pass
        finally:
            os.close(ours)
        assert process.wait(60) == 0
    return written.decode().replace("\r\n", "\n")


def test_the_verdict_in_words() -> None:
    """The issue's own command prints the verdict, the sentence and the reasons, plain in a pipe."""
    done = run("assess", *EXAMPLE)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"sync: {WORDS}",
        "  - 6,000 records, at least 1,000",
        "  - 6,000 × 50 ms is 300 s one by one, above 5 s",
        "  - 3.1 s is under 5 s",
    ]


def test_the_grid_is_plain_in_a_pipe() -> None:
    """The table follows the verdict, with its line and no escape sequence."""
    done = run("assess", *EXAMPLE, "--grid")
    assert done.returncode == 0
    assert "\033" not in done.stdout
    assert "  6,000   62 ms    619 ms    >3.1 s  ┃  6.2 s w    12 s J" in done.stdout
    assert max(map(len, done.stdout.splitlines()[4:])) <= 80


def test_the_grid_alone() -> None:
    """Without an operation there is only the table; nothing is pointed at."""
    done = run("assess", "--grid")
    assert done.stdout.startswith("Time at 20 at once")
    assert ">" not in done.stdout


def test_colour_on_a_terminal() -> None:
    """A terminal gets colours, and lines that are not cut in a word; NO_COLOR and TERM=dumb get none."""
    coloured = on_a_terminal("assess", *EXAMPLE, "--grid")
    assert "\033[32msync\033[0m: 6,000 × 50 ms" in coloured
    assert "\033[31m   10 s J" in coloured
    assert "\n  stay synchronous at that concurrency\n" in coloured
    assert "\033" not in on_a_terminal("assess", *EXAMPLE, "--grid", NO_COLOR="1")
    assert "\033" not in on_a_terminal("assess", *EXAMPLE, "--grid", TERM="dumb")


def test_colour_can_be_forced() -> None:
    """FORCE_COLOR colours a pipe; NO_COLOR wins over it; an empty variable is no wish."""
    assert "\033[32msync" in run("assess", *EXAMPLE, FORCE_COLOR="1").stdout
    assert "\033" not in run("assess", *EXAMPLE, FORCE_COLOR="1", NO_COLOR="1").stdout
    assert "\033" not in run("assess", *EXAMPLE, FORCE_COLOR="").stdout


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    """`--json` gives the assessment; with `--grid` the cells too; alone, only they."""
    assert main(["assess", *EXAMPLE, "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert (body["verdict"], body["words"], body["atOnceForSync"]) == ("sync", WORDS, 63)
    assert main(["assess", *EXAMPLE, "--json", "--grid"]) == 0
    body = json.loads(capsys.readouterr().out)
    cell = {"records": 6_000, "latencySeconds": 0.05, "seconds": body["concurrentSeconds"], "verdict": "sync"}
    assert cell in body["grid"]
    assert main(["assess", "--json", "--grid"]) == 0
    assert list(json.loads(capsys.readouterr().out)) == ["grid"]


def test_every_condition_can_be_said(capsys: pytest.CaptureFixture[str]) -> None:
    """Timeouts, complaints and a number of calls reach the decision."""
    assert main(["assess", "--timeouts-seen", "2"]) == 0
    assert capsys.readouterr().out.startswith("job: ")
    assert main(["assess", "--users-say-it-hangs"]) == 0
    assert "users say that it hangs" in capsys.readouterr().out
    assert main(["assess", "--records", "100", "--calls", "400", "--latency", "0.05"]) == 0
    assert "400 × 50 ms is 20 s one by one" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "nothing to do; for example: python -m asynctask assess --records 6000"),
        (("assess",), "nothing to assess; for example: python -m asynctask assess --records 6000"),
        (("judge",), "invalid choice: 'judge'"),
        (("assess", "--records", "many"), "--records: 'many' is not a number such as 6000"),
        (("assess", "--records", "1.5"), "--records: '1.5' is not a number such as 6000"),
        (("assess", "--records", "9" * 5_000), "…' is not a number such as 6000"),
        (("assess", "--records", "-5"), "--records is -5: give a whole number from 0 to"),
        (("assess", "--records", "5", "--latency", "50ms"), "--latency: '50ms' is not a number such as 0.05"),
        (("assess", "--latency", "nan"), "--latency is nan: give seconds, a number from 0 to"),
        (("assess", "--latency", "1e999"), "--latency is inf: give seconds"),
        (("assess", "--latency=-1"), "--latency is -1.0: give seconds"),
        (("assess", "--at-once", "0", "--grid"), "--at-once is 0: give a whole number from 1 to"),
        (("assess", "--timeouts-seen", "-1"), "--timeouts-seen is -1: give a whole number from 0 to"),
        (("assess", "--record", "5"), "unrecognized arguments: --record"),
        (("assess", "--latency"), "argument --latency: expected one argument"),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is wrong, with the value and what to give, in one line; never a usage text or a traceback."""
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    out, err = capsys.readouterr()
    assert (caught.value.code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert err.startswith("python -m asynctask")
    assert len(err) < 200


def test_a_reader_that_goes_away_is_no_error() -> None:
    """`| head -1` closes the pipe: status 0 and silence, no traceback."""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        command("assess", "--grid"),
        stdout=write,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env=environment(),
        timeout=60,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_line() -> None:
    """Output that cannot be written is said in one line, with status 2."""
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command("assess", "--grid"),
            stdout=full,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            env=environment(),
            timeout=60,
        )
    assert done.returncode == 2
    assert done.stderr == b"python -m asynctask assess: error: cannot write: No space left on device\n"


@pytest.mark.parametrize("arguments", [("assess", *EXAMPLE, "--grid"), ("--help",), ("assess", "--help")])
def test_an_old_encoding_gets_plain_signs(arguments: tuple[str, ...]) -> None:
    """Where the output cannot hold × or the line's signs, ASCII stands in for them."""
    done = run(*arguments, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    if "--grid" in arguments:
        assert "6,000 x 50 ms" in done.stdout
        assert "+---------+" in done.stdout
