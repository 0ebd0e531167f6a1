"""The payload is validated to the job's annotation, and a 422 says where it does not fit."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import anyio
import msgspec
import pydantic
import pytest
from starlette.testclient import TestClient

from asynctask import ConfigurationError, Jobs, Run
from tests.asgi.support import application, assert_problem, settled


@dataclasses.dataclass
class Price:
    """A payload as a dataclass."""

    amount: decimal.Decimal
    currency: Literal["EUR", "USD"] = "EUR"


class Filter(TypedDict):
    """A payload as a TypedDict."""

    brand: str
    limit: NotRequired[int]


class Import(msgspec.Struct):
    """A payload as a struct, with a nested one."""

    rows: list[int]
    price: Price | None = None
    since: datetime.date | None = None


class Order(pydantic.BaseModel):
    """A payload as a pydantic model."""

    sku: str
    amount: int = pydantic.Field(gt=0)
    tags: list[str] = []


class Tree(msgspec.Struct):
    """A payload that may hold itself."""

    leaves: list[Tree] = []


Page = Annotated[int, msgspec.Meta(ge=1, le=100)]
Slug = Annotated[str, msgspec.Meta(pattern="^[a-z]+$", max_length=5)]


async def as_dict(run: Run, payload: dict[str, Any]) -> None: ...
async def as_numbers(run: Run, payload: dict[int, float]) -> None: ...
async def as_list(run: Run, payload: list[int]) -> None: ...
async def as_dataclass(run: Run, payload: Price) -> None: ...
async def as_typed_dict(run: Run, payload: Filter) -> None: ...
async def as_struct(run: Run, payload: Import) -> None: ...
async def as_model(run: Run, payload: Order) -> None: ...
async def as_page(run: Run, page: Page) -> None: ...
async def as_slug(run: Run, slug: Slug) -> None: ...
async def as_optional(run: Run, page: Page | None = None) -> None: ...
async def as_default(run: Run, price: Price = Price(decimal.Decimal(1))) -> None: ...  # noqa: B008
async def as_model_or_none(run: Run, order: Order | None = None) -> None: ...
async def as_models(run: Run, orders: list[Order]) -> None: ...
async def as_model_within(run: Run, orders: dict[str, Order | None]) -> None: ...
async def as_tree(run: Run, tree: Tree) -> None: ...
async def as_anything(run: Run, payload) -> None: ...  # type: ignore[no-untyped-def]
async def bare(run: Run) -> None: ...


def posted(job: Any, payload: Any) -> tuple[Any, list[Any]]:
    """The answer to a trigger of `job`, and what payloads it was called with."""
    given: list[Any] = []

    async def recording(run: Run, payload: Any = None) -> None:
        given.append(payload)

    jobs = Jobs()
    jobs.job("job")(job)
    registered = jobs.registry.find("job")
    registered.fn = recording
    with TestClient(application(jobs)) as client:
        answer = client.post("/api/job") if payload is ... else client.post("/api/job", json=payload)
        if answer.status_code == 202:
            assert settled(client, "/api/job")["status"] == "SUCCESS"
    return answer, given


@pytest.mark.parametrize(
    ("job", "sent", "received"),
    [
        (as_dict, {"a": 1}, {"a": 1}),
        (as_dict, {}, {}),
        (as_numbers, {"7": 1.5, "8": 2}, {7: 1.5, 8: 2.0}),
        (as_list, [1, 2], [1, 2]),
        (as_dataclass, {"amount": "9.90"}, Price(decimal.Decimal("9.90"))),
        (as_dataclass, {"amount": 5, "currency": "USD"}, Price(decimal.Decimal(5), "USD")),
        (as_typed_dict, {"brand": "x"}, {"brand": "x"}),
        (as_typed_dict, {"brand": "x", "limit": 3}, {"brand": "x", "limit": 3}),
        (
            as_struct,
            {"rows": [1], "price": {"amount": "1"}, "since": "2026-01-31"},
            Import([1], Price(decimal.Decimal(1)), datetime.date(2026, 1, 31)),
        ),
        (as_model, {"sku": "a", "amount": 2}, Order(sku="a", amount=2)),
        (as_page, 100, 100),
        (as_slug, "abc", "abc"),
        (as_optional, 7, 7),
        (as_optional, None, None),
        (as_optional, ..., None),
        (as_default, ..., Price(decimal.Decimal(1))),
        (as_default, {"amount": 2}, Price(decimal.Decimal(2))),
        (as_model_or_none, ..., None),
        (as_model_or_none, {"sku": "a", "amount": 2}, Order(sku="a", amount=2)),
        (as_models, [{"sku": "a", "amount": 2}], [Order(sku="a", amount=2)]),
        (as_model_within, {"x": {"sku": "a", "amount": 2}}, {"x": Order(sku="a", amount=2)}),
        (as_tree, {"leaves": [{"leaves": []}]}, Tree([Tree()])),
        (as_anything, {"a": [None]}, {"a": [None]}),
        (as_anything, ..., None),
        (bare, ..., None),
        (bare, {}, None),
        (bare, None, None),
    ],
)
def test_a_fitting_payload_reaches_the_job(job: Any, sent: Any, received: Any) -> None:
    """The job gets what it is annotated with; `...` stands for no body."""
    answer, given = posted(job, sent)
    assert answer.status_code == 202, answer.text
    assert given == [received]
    assert type(given[0]) is type(received)


@pytest.mark.parametrize(
    ("job", "sent", "place"),
    [
        (as_dict, [1], "object"),
        (as_dict, ..., "needs a payload"),
        (as_dict, None, "needs a payload"),
        (as_numbers, {"x": 1}, "key"),
        (as_list, [1, "2"], "$[1]"),
        (as_dataclass, {"amount": "many"}, "$.amount"),
        (as_dataclass, {"amount": 1, "currency": "GBP"}, "$.currency"),
        (as_dataclass, {}, "`amount`"),
        (as_dataclass, ..., "needs a payload"),
        (as_typed_dict, {"limit": 3}, "`brand`"),
        (as_typed_dict, {"brand": "x", "limit": "3"}, "$.limit"),
        (as_struct, {"rows": [1, None]}, "$.rows[1]"),
        (as_struct, {"rows": [1], "price": {"amount": []}}, "$.price.amount"),
        (as_struct, {"rows": [], "since": "2026-02-31"}, "$.since"),
        (as_model, {"sku": "a", "amount": 0}, "$.amount"),
        (as_model, {"sku": "a", "amount": 1, "tags": ["x", 7]}, "$.tags.1"),
        (as_model, {}, "$.sku"),
        (as_model, ..., "needs a payload"),
        (as_page, 101, "100"),
        (as_page, 0, "1"),
        (as_page, True, "bool"),
        (as_slug, "ABC", "regex"),
        (as_slug, "abcdef", "5"),
        (as_optional, 0, "1"),
        (as_optional, "7", "int"),
        (as_model_or_none, {"sku": 1}, "$.sku"),
        (as_models, [{"sku": "a", "amount": 2}, {"sku": "b"}], "$.1.amount"),
        (as_models, ..., "needs a payload"),
        (as_tree, {"leaves": [{"leaves": [1]}]}, "$.leaves[0].leaves[0]"),
        (bare, {"a": 1}, "takes no payload"),
        (bare, [], "takes no payload"),
        (bare, 0, "takes no payload"),
    ],
)
def test_what_does_not_fit_is_a_422_that_says_where(job: Any, sent: Any, place: str) -> None:
    """Nothing is started, and the problem names the place or the rule."""
    answer, given = posted(job, sent)
    assert place in assert_problem(answer, 422, "invalid_payload")["detail"]
    assert given == []


class Plain:
    """A class that nobody can validate JSON to."""


@pytest.mark.parametrize("annotation", [Plain, list[Plain], Plain | None, dict[str, list[Plain]]])
def test_an_annotation_that_cannot_be_validated_is_refused_at_once(annotation: Any) -> None:
    """Wherever the class stands, the mistake shows at registration, not at every trigger."""

    async def job(run: Run, payload: Any) -> None: ...

    job.__annotations__["payload"] = annotation
    with pytest.raises(ConfigurationError, match="Plain"):
        Jobs().job("job")(job)


def test_a_payload_is_not_echoed_in_the_answer() -> None:
    """The problem says where it does not fit, not what was sent: it may hold a password."""
    answer, _ = posted(as_model, {"sku": {"password": "hunter2"}, "amount": "hunter2"})
    assert "hunter2" not in assert_problem(answer, 422, "invalid_payload")["detail"]


def test_a_payload_is_checked_also_when_a_run_is_joined() -> None:
    """Whether a payload fits does not depend on who came first."""
    jobs = Jobs()

    @jobs.job("long", cancelable=True)
    async def long(run: Run, page: Page) -> None:
        await anyio.sleep_forever()

    with TestClient(application(jobs)) as client:
        assert client.post("/api/long", json=1).json()["started"] is True
        assert client.post("/api/long", json=2).json()["started"] is False
        assert_problem(client.post("/api/long", json=0), 422, "invalid_payload")
        client.post("/api/long/cancel")


@pytest.mark.parametrize("depth", [500, 900])
def test_a_deep_payload_is_refused_or_taken_but_never_an_error(depth: int) -> None:
    """What the JSON parser lets pass, validation must bear."""
    payload: Any = 1
    for _ in range(depth):
        payload = [payload]
    answer, _ = posted(as_anything, payload)
    assert answer.status_code in (202, 400, 422)
