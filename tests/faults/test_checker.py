"""The checker finds what it is there to find: each invariant, broken in a made-up history."""

from __future__ import annotations

from typing import Any

import pytest

from tests.faults.checker import violations
from tests.faults.history import Answer, Entry, Fault

KEY = "work/x"


def answer(t: float, **fields: Any) -> Answer:
    """An answer that came at once."""
    usual: dict[str, Any] = {
        "client": "c",
        "worker": 0,
        "verb": "status",
        "key": KEY,
        "status": 200,
        "run": "a",
    }
    return Answer(began=t, ended=t, **{**usual, "version": 1, "state": "RUNNING", **fields})


def entry(t: float, what: Any, run: str = "a", pid: int = 1, **fields: Any) -> Entry:
    """A line of the diary."""
    return Entry(t=t, what=what, run=run, pid=pid, key=KEY, **fields)


GOOD_ANSWERS = [
    answer(1, verb="trigger", status=202, started=True),
    answer(2, version=4),
    answer(3, version=4, client="d"),
    answer(4, state="SUCCESS", version=9),
    answer(5, status=503, run=None, state=None, version=0, code="store_unavailable", retry_after="2"),
    answer(6, verb="trigger", status=202, started=True, run="b"),
    answer(9, run="b", state="FAILED", version=7, code="worker_lost"),
]
LOST = answer(11, client="f", run="b", state="FAILED", version=7, code="worker_lost")
GOOD_ENTRIES = [entry(1, "start"), entry(2, "step"), entry(3, "end"), entry(6, "start", "b", 2)]
GOOD_FAULTS = [Fault(at=7, what="kill", worker=1, pid=2, until=7.1)]


def check(
    answers: list[Answer] | None = None, faults: list[Fault] | None = None, entries: list[Entry] | None = None
) -> list[str]:
    """Check the good history with something more in it."""
    return violations(
        [*GOOD_ANSWERS, *(answers or [])],
        [*GOOD_FAULTS, *(faults or [])],
        sorted([*GOOD_ENTRIES, *(entries or [])], key=lambda e: e.t),
        lease=2.0,
    )


def test_good_history_has_no_violation() -> None:
    """A history in which all went well passes, with a crash, a refusal and two runs of a key in it."""
    assert check() == []


@pytest.mark.parametrize(
    ("word", "more"),
    [
        ("overlap", {"entries": [entry(6.5, "step")]}),
        ("executed 2 times", {"entries": [entry(6.1, "start", "b", 3)]}),
        ("outcome changed", {"answers": [answer(5, client="e", state="FAILED", version=10)]}),
        ("outcome changed", {"answers": [answer(5, client="e", state="RUNNING", version=10)]}),
        ("went back", {"answers": [answer(2.5, version=3)]}),
        ("came back", {"answers": [answer(7, state="SUCCESS", version=9), answer(8, run="b", version=2)]}),
        ("no such run", {"answers": [answer(5, client="e", verb="trigger", status=202, run="z")]}),
        ("nobody asked", {"entries": [entry(5, "start", "y")]}),
        ("no end", {"answers": [answer(20, client="e", run="b", version=2)]}),
        ("lost too late", {"answers": [answer(10.2, client="e", run="b", version=2)]}),
        ("rude", {"answers": [answer(7, client="e", status=500, run=None, state=None)]}),
        ("rude", {"answers": [answer(7, client="e", status=503, run=None, state=None)]}),
    ],
)
def test_each_violation_is_found(word: str, more: dict[str, Any]) -> None:
    """One broken promise in an otherwise good history is found and named."""
    assert any(text.startswith(word) for text in check(**more)), check(**more)


@pytest.mark.parametrize(
    "more",
    [
        {
            "entries": [entry(6.5, "step")],
            "faults": [Fault(at=5, what="pause", worker=0, pid=1, until=6.4)],
        },
        {
            "entries": [entry(6.5, "step")],
            "faults": [Fault(at=5, what="memory lost", worker=-1, until=5.5)],
        },
        {"entries": [entry(5, "start", "y")], "answers": [answer(4.9, verb="trigger", status=0, run=None)]},
        {
            "answers": [answer(10.2, client="e", run="b", version=2), LOST],
            "faults": [Fault(at=8, what="redis restarted", worker=-1, until=9.5)],
        },
    ],
)
def test_what_is_excused(more: dict[str, Any]) -> None:
    """A pause excuses its own process, lost memory excuses all, silence excuses an unknown run."""
    assert [text for text in check(**more) if not text.startswith("outcome changed")] == []
