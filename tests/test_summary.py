"""Summaries: whatever a job returns becomes valid JSON within a byte limit, and nothing raises."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import fractions
import json
import math
import pathlib
import types
import uuid
from collections import Counter, OrderedDict, deque
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asynctask.snapshot import Snapshot, Status, decode, encode
from asynctask.summary import MAX_BYTES, MAX_DEPTH, is_preview, summarise


@dataclasses.dataclass
class Point:
    """A dataclass to return."""

    x: int
    y: Any = None


class Group(msgspec.Struct):
    """A struct to return."""

    name: str
    sizes: set[int]


class Model(pydantic.BaseModel):
    """A pydantic model to return."""

    at: datetime.date


class Colour(enum.Enum):
    """An enumeration to return."""

    RED = "red"


class Opaque:
    """A class that nobody knows."""


class Hostile:
    """Raises wherever it is touched."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise self.error

    def __str__(self) -> str:
        raise self.error

    __repr__ = __str__


class Endless(Mapping[str, int]):
    """A mapping without end."""

    def __getitem__(self, key: str) -> int:
        return 1

    def __iter__(self) -> Iterator[str]:
        n = 0
        while True:
            yield str(n)
            n += 1

    def __len__(self) -> int:
        return 2**62


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        ({"a": [1, 2.5, "x"]}, {"a": [1, 2.5, "x"]}),
        (datetime.datetime(2026, 1, 2, 3, 4, tzinfo=datetime.UTC), "2026-01-02T03:04:00+00:00"),
        (datetime.date(2026, 1, 2), "2026-01-02"),
        (datetime.time(3, 4), "03:04:00"),
        (datetime.timedelta(minutes=1, milliseconds=500), 60.5),
        (decimal.Decimal("1.10"), "1.10"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (pathlib.PurePosixPath("/a/b"), "/a/b"),
        (b"\x00\xff", "AP8="),
        (bytearray(b"a"), "YQ=="),
        ({3, 1, 2}, [1, 2, 3]),
        (frozenset("a"), ["a"]),
        ({1: {1, 1j}}, {"1": [1, "<complex>"]}),
        ((1, (2,)), [1, [2]]),
        (Point(1, Point(2)), {"x": 1, "y": {"x": 2, "y": None}}),
        (Group("a", {1}), {"name": "a", "sizes": [1]}),
        (Model(at=datetime.date(2026, 1, 2)), {"at": "2026-01-02"}),
        (Colour.RED, "red"),
        (fractions.Fraction(1, 4), 0.25),
        (Counter("aab"), {"a": 2, "b": 1}),
        (OrderedDict(a=1), {"a": 1}),
        (types.MappingProxyType({"a": 1}), {"a": 1}),
        (deque([1]), "<deque>"),
        (Opaque(), "<Opaque>"),
        (Opaque, "<type>"),
        (iter([1]), "<list_iterator>"),
    ],
)
def test_common_types(value: object, expected: object) -> None:
    """celery#422, #2409: datetime, Decimal, UUID, dataclass, bytes and set are no reason to fail."""
    assert summarise(value) == expected
    assert summarise({"deep": [value]}) == {"deep": [expected]}


def test_numbers_that_json_lacks() -> None:
    """prefect#6439: NaN and infinities become null, integers that browsers would round become texts."""
    assert summarise([math.nan, math.inf, -math.inf]) == [None, None, None]
    assert summarise([2**53 - 1, 2**53, -(2**53)]) == [2**53 - 1, str(2**53), str(-(2**53))]
    assert summarise(10**6000) == "<integer of 19932 bits>"


def test_numpy_numbers() -> None:
    """The scalars of numpy are numbers, though none of Python's own; its arrays are named."""
    numpy = pytest.importorskip("numpy")
    value = {"n": numpy.int64(3), "mean": numpy.float32(0.5), "sd": numpy.float64(0.25), "no": numpy.nan}
    assert summarise(value) == {"n": 3, "mean": 0.5, "sd": 0.25, "no": None}
    assert summarise(numpy.zeros(9)) == "<ndarray>"


def test_names_of_members_are_made_texts() -> None:
    """Tuple, number, enum and None keys; JSON knows text alone."""
    value = {(1, "a"): 1, 2: 2, 2.5: 3, None: 4, True: 5, Colour.RED: 6, datetime.date(2026, 1, 2): 7}
    assert summarise(value) == {
        **{"1,a": 1, "2": 2, "2.5": 3, "null": 4, "true": 5, "red": 6, "2026-01-02": 7},
    }


def test_lone_surrogates_are_replaced() -> None:
    """They cannot be written as UTF-8; pairs of them can."""
    assert summarise({"\ud800": "a\udfffb"}) == {"\ufffd": "a\ufffdb"}
    assert summarise("\ud83d\ude00") == "😀"


def test_cycles_and_deep_nesting_end() -> None:
    """A structure that contains itself, or goes deeper than anybody reads, is cut off."""
    cycle: list[Any] = [1]
    cycle.append(cycle)
    encode(summarise(cycle))
    deep: Any = 0
    for _ in range(100_000):
        deep = [deep]
    assert json.dumps(summarise(deep)).count("[") == MAX_DEPTH


@pytest.mark.parametrize("error", [ValueError(), RecursionError(), SystemExit(), KeyboardInterrupt()])
def test_a_value_that_raises_is_named(error: BaseException) -> None:
    """What is beside it stays."""
    assert summarise({"ok": 1, "bad": Hostile(error)}) == {"ok": 1, "bad": "<Hostile>"}


@pytest.mark.parametrize(
    "value",
    [
        "x" * (MAX_BYTES + 1),
        "\x01" * MAX_BYTES,
        b"x" * MAX_BYTES,
        list(range(100_000)),
        {str(n): n for n in range(100_000)},
        set(range(100_000)),
        [["x" * 100] * 100] * 100,
        Endless(),
        [2**8000] * 1000,
        {"x" * MAX_BYTES * 2: 1},
    ],
    ids=["text", "escapes", "bytes", "list", "dict", "set", "nested", "endless", "integers", "name"],
)
def test_what_is_too_large_is_replaced_by_a_note_and_a_preview(value: object) -> None:
    """A result set is no summary: it says what it was and how it began, and the run keeps its outcome."""
    summary = summarise(value)
    assert is_preview(summary)
    assert summary["truncated"] is True
    assert summary["type"] == type(value).__name__
    assert 0 < len(summary["preview"]) <= 401
    assert len(encode(summary)) < 4000


def test_the_limit_is_exact() -> None:
    """A result of just the limit is kept, one byte more is not."""
    assert not is_preview(summarise("x" * 98, limit=100))
    assert is_preview(summarise("x" * 99, limit=100))


def test_a_result_of_the_jobs_own_that_speaks_of_truncation_is_no_preview() -> None:
    """Only the note itself is taken for one."""
    assert not is_preview(summarise({"truncated": True}))
    assert not is_preview(summarise(None))


def test_the_summary_shares_nothing_with_the_result() -> None:
    """What the job changes after its return is not in the snapshot."""
    result = {"rows": [1]}
    summary = summarise(result)
    result["rows"].append(2)
    assert summary == {"rows": [1]}


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.binary()
    | st.decimals()
    | st.datetimes()
    | st.builds(Opaque),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(st.characters()) | st.integers() | st.floats() | st.none(), inner)
        | st.builds(Point, st.integers(), inner)
    ),
    max_leaves=30,
)


@given(value=anything, limit=st.integers(100, 5000))
def test_whatever_is_returned_the_snapshot_is_valid_json(value: object, limit: int) -> None:
    """Strict JSON of bounded size that comes back as it was sent."""
    summary = summarise(value, limit=limit)
    assert is_preview(summary) or len(encode(summary)) <= limit
    json.loads(encode(summary), parse_constant=lambda constant: pytest.fail(f"{constant} is no JSON"))
    snapshot = Snapshot(job="a", key="a", status=Status.SUCCESS, result=summary)
    assert decode(encode(snapshot)).result == summary
