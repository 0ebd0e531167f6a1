"""Snapshot: the state machine, the wire format, the percentage and the poll interval."""

from __future__ import annotations

import datetime
import json
import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asynctask.snapshot import (
    MESSAGES,
    TRANSITIONS,
    Code,
    Snapshot,
    Status,
    decode,
    encode,
    idle,
    percent,
    poll_after_ms,
    timestamp,
)

counts = st.integers(0, 2**53 - 1)
totals = st.none() | counts

FIELDS = [
    *("job", "key", "status", "runId", "version", "processed", "total", "percent", "succeeded", "failed"),
    *("message", "result", "errorMessage", "errorCode", "errorId", "cancelRequested"),
    *("startedAt", "updatedAt", "finishedAt", "durationMs", "pollAfterMs"),
]


def test_there_are_exactly_four_statuses() -> None:
    """The specification's four, and no others."""
    assert [status.value for status in Status] == ["IDLE", "RUNNING", "SUCCESS", "FAILED"]


def test_a_running_run_can_only_end_and_an_ended_one_never_changes() -> None:
    """RUNNING leads to a terminal status alone; from those a key starts anew or is forgotten."""
    assert TRANSITIONS[Status.RUNNING] == {Status.SUCCESS, Status.FAILED}
    assert TRANSITIONS[Status.IDLE] == {Status.RUNNING}
    for over in (Status.SUCCESS, Status.FAILED):
        assert over.terminal
        assert TRANSITIONS[over] == {Status.IDLE, Status.RUNNING}
    assert not Status.RUNNING.terminal
    assert not Status.IDLE.terminal


def test_every_field_is_on_the_wire_in_camel_case_but_started_only_in_a_triggers_answer() -> None:
    """The contract of the HTTP surface: fields are null rather than absent."""
    assert list(json.loads(encode(idle("job", "job")))) == FIELDS
    answer = json.loads(encode(msgspec.structs.replace(idle("job", "job"), started=False)))
    assert answer.keys() - set(FIELDS) == {"started"}


def test_a_snapshot_survives_the_wire() -> None:
    """What was encoded decodes to an equal snapshot, `started` absent or present."""
    for started in (msgspec.UNSET, True, False):
        snapshot = Snapshot(
            job="a", key="a", status=Status.FAILED, run_id="00", started=started, result={"x": [1, "é"]}
        )
        assert decode(encode(snapshot)) == snapshot


def test_a_snapshot_cannot_be_changed() -> None:
    """A picture that one poller holds is no picture that a run goes on painting."""
    with pytest.raises(AttributeError):
        idle("job", "job").version = 2  # type: ignore[misc]


def test_the_etag_stands_for_one_version_of_one_run() -> None:
    """Same run and version, same tag; another version or run, another tag (RFC 9110, section 8.8.3)."""
    first = Snapshot(job="a", key="a", status=Status.RUNNING, run_id="r1", version=1)
    assert first.etag == '"r1.1"'
    assert idle("a", "a").etag == '"idle.0"'
    for change in ({"version": 2}, {"run_id": "r2"}):
        other = msgspec.structs.replace(first, **change)
        assert other.etag != first.etag
        assert not other.same_version(first)
    assert first.joined().started is False
    assert first.joined().same_version(first)


@pytest.mark.parametrize(
    ("status", "processed", "total", "expected"),
    [
        (Status.RUNNING, 5, None, None),
        (Status.SUCCESS, 5, None, None),
        (Status.RUNNING, 0, 0, None),
        (Status.SUCCESS, 0, 0, 100),
        (Status.RUNNING, 0, 10, 0),
        (Status.RUNNING, 999, 1000, 99),
        (Status.RUNNING, 1999, 3000, 66),
        (Status.RUNNING, 10, 10, 99),
        (Status.RUNNING, 25, 10, 99),
        (Status.FAILED, 10, 10, 99),
        (Status.FAILED, 4, 10, 40),
        (Status.SUCCESS, 4, 10, 100),
    ],
)
def test_percent(status: Status, processed: int, total: int | None, expected: int | None) -> None:
    """Floored; null where there is no total, or none to speak of; 100 at SUCCESS alone (rich#84)."""
    assert percent(status, processed, total) == expected


@given(status=st.sampled_from(list(Status)), processed=counts, total=totals, floor=st.integers(0, 99))
def test_percent_is_null_or_within_bounds(
    status: Status, processed: int, total: int | None, floor: int
) -> None:
    """ilastik#3176: whatever a job counts, a bar gets null or 0 to 100, 100 only at the end, never less."""
    shown = percent(status, processed, total, floor)
    assert shown is None or 0 <= shown <= 100
    assert shown != 100 or status is Status.SUCCESS
    assert shown is None or shown >= floor


@given(elapsed=st.floats(0, 1e9), processed=counts, total=totals)
def test_the_poll_interval_stays_within_its_bounds(elapsed: float, processed: int, total: int | None) -> None:
    """Never faster than four times a second, never slower than every 5 s, and a whole number."""
    interval = poll_after_ms(elapsed, processed, total)
    assert type(interval) is int
    assert 250 <= interval <= 5000


def test_the_poll_interval_follows_the_rate() -> None:
    """Soon when the end is near, slower on a long run."""
    assert poll_after_ms(elapsed=10, processed=999, total=1000) == 250
    assert poll_after_ms(elapsed=10, processed=100, total=1000) == 5000
    assert poll_after_ms(elapsed=1, processed=100, total=1000) == 900
    assert poll_after_ms(elapsed=0, processed=0, total=None) == 1000
    assert poll_after_ms(elapsed=40, processed=0, total=None) == 2000
    assert poll_after_ms(elapsed=3600, processed=0, total=None) == 5000


@given(st.floats(0, 4e9))
def test_timestamps_are_rfc_3339_in_utc_with_milliseconds(seconds: float) -> None:
    """One format, whatever the fraction, that `Date` and `datetime` parse to the moment meant."""
    text = timestamp(seconds)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", text)
    assert abs(datetime.datetime.fromisoformat(text).timestamp() - seconds) < 0.002


def test_every_code_of_the_projects_own_has_its_text() -> None:
    """A run that was stopped says why; only errors and timeouts make their text of what they know."""
    assert MESSAGES.keys() == set(Code) - {Code.ERROR, Code.TIMEOUT}
    assert all(MESSAGES.values())
