"""Job: a definition is checked when it is made, and its messages say what to change."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from asynctask.errors import ConfigurationError, NotCancelableError
from asynctask.job import Job
from asynctask.keys import Key
from asynctask.run import Run
from asynctask.snapshot import Code, Status


async def plain(run: Run) -> str:
    """A job without payload."""
    return run.key


async def with_payload(run: Run, payload: dict[str, int]) -> int:
    """A job with one."""
    return payload["n"]


class Callable_:
    """An object that is a job."""

    async def __call__(self, run: Run) -> int:
        return 1

    async def method(self, run: Run, payload: int = 2) -> int:
        """A bound method that is a job."""
        return payload


async def three(first: int, run: Run, payload: int) -> int:
    """Becomes a job by functools.partial."""
    return first + payload


def decorated(fn: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """A decorator as applications write them."""

    @functools.wraps(fn)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        return await fn(*args, **kwargs)

    return wrapper


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("fn", "payload", "expected"),
    [
        (plain, None, "job"),
        (with_payload, {"n": 3}, 3),
        (Callable_(), None, 1),
        (Callable_().method, None, 2),
        (functools.partial(three, 40), 2, 42),
        (decorated(with_payload), {"n": 5}, 5),
    ],
    ids=["function", "payload", "object", "method", "partial", "decorated"],
)
async def test_whatever_is_an_async_function_can_be_a_job(
    fn: Callable[..., Awaitable[Any]], payload: Any, expected: Any
) -> None:
    """Functions, methods, partials, callable objects and decorated functions are called as they should be."""
    job = Job("job", fn)
    run = Run(job.key("", None), payload=job.convert(payload))
    assert await job.call(run) == expected


def sync(run: Run) -> None:
    """Not async."""


async def generator(run: Run) -> AsyncIterator[int]:
    """An async generator."""
    yield 1


async def nothing() -> None:
    """Takes no run."""


async def too_many(run: Run, a: int, b: int) -> None:
    """Takes too much."""


async def keyword(run: Run, *, needed: int) -> None:
    """Needs what nobody passes."""


@pytest.mark.parametrize(
    ("fn", "hint"),
    [
        (sync, "write `async def`"),
        (lambda run: None, "write `async def`"),
        (Run, "write `async def`"),
        ("plain", "write `async def`"),
        (None, "write `async def`"),
        (generator, "drop the yield"),
        (nothing, "must take the run"),
        (too_many, "must take the run"),
        (keyword, "must take the run"),
    ],
)
def test_what_cannot_be_a_job_is_refused_with_a_hint(fn: Any, hint: str) -> None:
    """At registration, naming the job, not at the first trigger."""
    with pytest.raises(ConfigurationError, match=hint) as caught:
        Job("imports/all", fn)
    assert "'imports/all'" in str(caught.value)


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), True, "5"])
def test_an_unfit_timeout_is_refused(timeout: Any) -> None:
    """A NaN would never pass, and a 0 always."""
    with pytest.raises(ConfigurationError, match=r"timeout=.*positive number of seconds"):
        Job("job", plain, timeout=timeout)


def test_cancelable_is_a_flag() -> None:
    """Not a text that happens to be true."""
    with pytest.raises(ConfigurationError, match="cancelable='no'"):
        Job("job", plain, cancelable="no")  # type: ignore[arg-type]


def test_a_job_that_is_not_cancelable_says_how_it_would_be() -> None:
    """405, and what to register."""
    with pytest.raises(NotCancelableError, match="cancelable=True"):
        Job("job", plain).check_cancelable()
    Job("job", plain, cancelable=True).check_cancelable()


def test_its_key_and_its_name() -> None:
    """The key is of its path; the representation names path and function."""
    job = Job("files/{name}", plain)
    assert job.key("t", {"name": "a b"}) == Key("files/{name}", "files/a%20b", "t")
    assert repr(job) == "<Job 'files/{name}': plain>"


def test_what_a_run_measured_is_kept_and_a_quick_job_is_told_once() -> None:
    """Twenty quick runs in a row earn one notice: this need not be a job."""
    job = Job("job", plain)
    notices = []
    for _ in range(45):
        run = Run(job.key("", None))
        run.advance(3)
        run.finish(Status.SUCCESS)
        notices.append(job.record(run.snapshot()))
    assert sum(notice is not None for notice in notices) == 1
    assert "'job'" in str(notices[19])
    late = Run(job.key("", None))
    late.finish(Status.FAILED, error_code=Code.TIMEOUT)
    job.record(late.snapshot())
    figures = job.history.figures()
    assert figures.run_timeouts == 1
    assert figures.records is not None
    assert figures.records.max == 3
