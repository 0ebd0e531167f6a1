"""Payloads: fitted to the annotation of a job's second parameter, or refused with the place."""

from __future__ import annotations

import dataclasses
import datetime
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import msgspec
import pydantic
import pytest

from asynctask.errors import ConfigurationError, InvalidPayloadError
from asynctask.payload import converter, no_payload

if TYPE_CHECKING:
    from asynctask.run import Run


class Options(TypedDict, total=False):
    """A TypedDict payload."""

    limit: int


@dataclasses.dataclass
class Window:
    """A dataclass payload, which checks itself."""

    start: datetime.date
    days: int = 7

    def __post_init__(self) -> None:
        if self.days < 1:
            raise ValueError("days must be positive")


class Query(msgspec.Struct):
    """A struct payload."""

    ids: list[int]


class Model(pydantic.BaseModel):
    """A pydantic payload."""

    ids: list[int]
    size: int = pydantic.Field(default=1, ge=1)


def fitted(annotation: Any) -> Callable[[Any], Any]:
    """The converter of a job with that annotation."""

    async def job(run: Run, order: Any) -> None: ...

    job.__annotations__["order"] = annotation
    return converter("job", job)


@pytest.mark.parametrize(
    ("annotation", "payload", "expected"),
    [
        (dict, {"a": 1}, {"a": 1}),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (list[int], [1, 2], [1, 2]),
        (int | None, None, None),
        (Any, {"x": [None]}, {"x": [None]}),
        (Options, {"limit": 1}, {"limit": 1}),
        (Options, {}, {}),
        (Window, {"start": "2026-01-02"}, Window(datetime.date(2026, 1, 2))),
        (Query, {"ids": [1]}, Query([1])),
        (Query, Query([2]), Query([2])),
        (Model, {"ids": [1]}, Model(ids=[1])),
        (list[Model], [{"ids": [1]}], [Model(ids=[1])]),
        (Model | None, None, None),
        (Annotated[int, msgspec.Meta(ge=1)], 3, 3),
    ],
)
def test_a_payload_becomes_what_the_annotation_says(annotation: Any, payload: Any, expected: Any) -> None:
    """dict, list, TypedDict, dataclass, struct, constraint, and pydantic's model if there is one."""
    assert fitted(annotation)(payload) == expected


@pytest.mark.parametrize(
    ("annotation", "payload", "place"),
    [
        (dict[str, int], {"a": "x"}, r"\$\[\.\.\.\]"),
        (Query, {"ids": [1, "x"]}, r"\$\.ids\[1\]"),
        (Query, {}, "ids"),
        (Window, {"start": "soon"}, r"\$\.start"),
        (Window, {"start": "2026-01-02", "days": 0}, "days must be positive"),
        (Model, {"ids": [1, "x"], "size": 0}, r"\$\.ids\.1.*\$\.size"),
        (Annotated[int, msgspec.Meta(ge=1)], 0, ">= 1"),
        (dict, [1], "Expected `object`"),
    ],
)
def test_a_payload_that_does_not_fit_is_refused_with_the_place(
    annotation: Any, payload: Any, place: str
) -> None:
    """422, and the message says where and what was expected."""
    with pytest.raises(InvalidPayloadError, match=place) as caught:
        fitted(annotation)(payload)
    assert caught.value.status == 422


def test_a_missing_payload_is_the_default_or_an_error_that_says_so() -> None:
    """A parameter with a default may be left out; without one the message says that nothing was sent."""

    async def lenient(run: Run, size: int = 5) -> None: ...

    async def strict(run: Run, size: int) -> None: ...

    assert converter("job", lenient)(None) == 5
    assert converter("job", lenient)(6) == 6
    with pytest.raises(InvalidPayloadError, match=r"needs a payload for its 'size', and none was sent"):
        converter("job", strict)(None)


def test_without_an_annotation_any_json_passes() -> None:
    """No annotation, no validation."""

    async def job(run, anything):  # type: ignore[no-untyped-def]
        """A job whose second parameter may be anything."""

    assert converter("job", job)({"a": [1]}) == {"a": [1]}


def test_a_job_without_payload_takes_none_or_an_empty_one() -> None:
    """Many clients send `{}`; anything else is a mistake of theirs."""
    convert = no_payload("job")
    convert(None)
    convert({})
    payloads: list[Any] = [{"a": 1}, [], 0, ""]
    for payload in payloads:
        with pytest.raises(InvalidPayloadError, match="takes no payload"):
            convert(payload)


def test_an_annotation_that_cannot_be_resolved_is_an_error_at_registration() -> None:
    """Not a 500 at the first trigger; the run's own annotation may be for type checkers alone."""

    async def job(run: Run, order: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(ConfigurationError, match=r"cannot resolve the annotation 'Missing' of 'order'"):
        converter("job", job)


@pytest.mark.parametrize("annotation", [Callable[[], None], object, "Opaque"])
def test_an_annotation_that_json_cannot_fit_is_an_error_at_registration(annotation: Any) -> None:
    """A class that nobody can build from JSON would fail at each trigger."""

    class Opaque:
        pass

    with pytest.raises(ConfigurationError, match="order"):
        fitted(Opaque if annotation == "Opaque" else annotation)


def test_annotations_of_partials_and_of_callable_objects_are_resolved() -> None:
    """Where they are written as texts, in the module of the function behind."""

    async def three(source: str, run: Run, order: Query) -> None: ...

    class Importer:
        async def __call__(self, run: Run, order: Query) -> None: ...

    for fn in (functools.partial(three, "csv"), Importer()):
        assert converter("job", fn)({"ids": [1]}) == Query([1])
