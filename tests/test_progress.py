"""Progress: what a job counts, whatever it counts with."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asynctask.keys import Key
from asynctask.progress import MAX_COUNT, Progress
from asynctask.run import Run
from asynctask.snapshot import Status


def new_run() -> Run:
    """A run of nothing."""
    return Run(Key("job", "job", ""))


def test_items_are_counted_with_those_that_failed() -> None:
    """`processed` is all, `failed` some of them, `succeeded` the rest."""
    run = new_run()
    run.advance()
    run.advance(4, failed=1)
    run.advance(0, failed=1)
    snapshot = run.snapshot()
    assert (snapshot.processed, snapshot.succeeded, snapshot.failed) == (5, 3, 2)
    assert (snapshot.total, snapshot.percent) == (None, None)


@pytest.mark.parametrize(
    "n", [0, -5, math.nan, math.inf, -math.inf, None, "x", "", [], b"1x", object(), 0.4, False, -(2**99)]
)
def test_a_count_that_is_none_changes_nothing(n: Any) -> None:
    """rich#84, ilastik#3176: NaN, infinite, negative or no number at all: no error, no step, no version."""
    run = new_run()
    before = run.snapshot()
    run.advance(n)
    run.advance(0, failed=n)
    assert run.snapshot() is before


@pytest.mark.parametrize(("n", "expected"), [(True, 1), (2.9, 2), ("3", 3), (2**60, MAX_COUNT)])
def test_a_count_of_another_type_is_made_whole(n: Any, expected: int) -> None:
    """What means a number counts as one, up to what JSON carries exactly."""
    run = new_run()
    run.advance(n)
    assert run.snapshot().processed == expected


def test_counts_beyond_what_json_carries_are_cut() -> None:
    """They add up to no more than 2**53 - 1, where a browser's numbers end."""
    run = new_run()
    run.advance(2**53)
    run.advance(2**53, failed=2**54)
    run.total = 2**70
    snapshot = run.snapshot()
    assert snapshot.processed == snapshot.total == snapshot.failed == MAX_COUNT
    assert snapshot.succeeded == 0


def test_more_failed_than_processed_is_all_of_them() -> None:
    """`succeeded` is never negative."""
    run = new_run()
    run.advance(1, failed=5)
    assert (run.snapshot().succeeded, run.snapshot().failed) == (0, 1)


@pytest.mark.parametrize(
    ("total", "expected"), [(None, None), (10, 10), (0, 0), (-3, 0), (math.nan, 0), (math.inf, 0), (7.9, 7)]
)
def test_total_takes_what_it_is_given(total: Any, expected: int | None) -> None:
    """A total that is no number of items shows no percentage, and raises nothing."""
    run = new_run()
    run.total = total
    assert run.total == expected
    assert run.snapshot().percent == (0 if expected else None)


def test_the_percentage_never_falls_when_the_total_grows_or_is_withdrawn() -> None:
    """Decreasing would be: 50 %, then more work is found; also after a while without a total."""
    run = new_run()
    run.total = 10
    run.advance(5)
    assert run.snapshot().percent == 50
    run.total = 100
    assert run.snapshot().percent == 50
    run.total = None
    assert run.snapshot().percent is None
    run.total = 100
    assert run.snapshot().percent == 50
    run.advance(70)
    assert run.snapshot().percent == 75


def test_more_processed_than_there_are_is_99_until_success() -> None:
    """processed > total: a job that miscounts is not done before it is."""
    run = new_run()
    run.total = 2
    run.advance(5)
    assert run.snapshot().percent == 99
    assert run.finish(Status.SUCCESS).percent == 100


def test_a_success_without_items_is_100_percent() -> None:
    """Nothing to do is done."""
    run = new_run()
    run.total = 0
    assert run.snapshot().percent is None
    assert run.finish(Status.SUCCESS).percent == 100


def test_a_failure_keeps_the_percentage_that_was_reached() -> None:
    """100 is for SUCCESS alone."""
    run = new_run()
    run.total = 3
    run.advance(3)
    assert run.finish(Status.FAILED).percent == 99


def test_a_message_is_cleaned_and_can_be_taken_back() -> None:
    """It is for visitors, as error messages are."""
    run = new_run()
    run.message = "loading from http://u:p@h/\x00\n"
    assert run.snapshot().message == run.message == "loading from http://***@h/"
    run.message = 3  # type: ignore[assignment]
    assert run.snapshot().message == "3"
    run.message = None
    assert run.snapshot().message is None


steps = st.one_of(
    st.tuples(st.just("advance"), st.integers(-3, 50), st.integers(-3, 50)),
    st.tuples(st.just("total"), st.none() | st.integers(-5, 200), st.none()),
    st.tuples(st.just("message"), st.sampled_from(["a", "b", None]), st.none()),
    st.tuples(st.just("look"), st.none(), st.none()),
)


@given(st.lists(steps, max_size=40), st.booleans())
def test_pictures_are_consistent_and_move_forward_only(plan: list[tuple[Any, ...]], ok: bool) -> None:
    """One version, one picture; counts and percentage never fall; 100 comes with SUCCESS alone."""
    run = new_run()
    seen = [run.snapshot()]
    for what, first, second in plan:
        if what == "advance":
            run.advance(first, failed=second)
        elif what == "look":
            seen.append(run.snapshot())
        else:
            setattr(run, what, first)
    seen += [run.snapshot(), run.finish(Status.SUCCESS if ok else Status.FAILED), run.snapshot()]
    highest = 0
    for before, after in itertools.pairwise(seen):
        assert (before == after) == (before.version == after.version)
        assert before.version <= after.version
        assert before.processed <= after.processed
        assert after.succeeded + after.failed == after.processed
        if after.percent is not None:
            assert highest <= after.percent <= 100
            highest = after.percent
            assert after.percent < 100 or after.status is Status.SUCCESS


def test_progress_stands_alone() -> None:
    """The counters need nothing of the run around them."""
    progress = Progress()
    progress.total = 4
    for _ in range(4):
        progress.advance()
    assert progress.seconds >= 0
