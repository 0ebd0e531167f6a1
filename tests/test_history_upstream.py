"""Which exceptions of a job's remote calls count as upstream errors, whichever client raised them."""

from typing import Any

import anyio
import httpx
import httpx2
import pytest

from asynctask.history import History


def upstream_of(*errors: BaseException) -> dict[str, int]:
    history = History()
    for error in errors:
        history.record_error(error)
    return {kind: count for kind, count in history.figures().upstream.items() if count}


def answered(client: Any, status: int) -> Exception:
    """What `raise_for_status()` of httpx or httpx2 raises, made by themselves."""
    response = client.Response(status, request=client.Request("GET", "http://remote.test/"))
    with pytest.raises(client.HTTPStatusError) as caught:
        response.raise_for_status()
    error: Exception = caught.value
    return error


@pytest.mark.parametrize("client", [httpx, httpx2], ids=["httpx", "httpx2"])
@pytest.mark.parametrize("status", [502, 503, 504])
def test_answers_of_an_overloaded_remote_are_counted(client: Any, status: int) -> None:
    """502, 503 and 504 are counted by status, with httpx and with httpx2."""
    assert upstream_of(answered(client, status)) == {str(status): 1}


@pytest.mark.parametrize("client", [httpx, httpx2], ids=["httpx", "httpx2"])
@pytest.mark.parametrize("status", [404, 429, 500])
def test_other_answers_are_not(client: Any, status: int) -> None:
    """Any other status is not a sign that the remote side is overloaded."""
    assert upstream_of(answered(client, status)) == {}


@pytest.mark.parametrize(
    "error",
    [
        httpx.ReadTimeout("slow"),
        httpx.ConnectTimeout("slow"),
        httpx2.ReadTimeout("slow"),
        httpx2.WriteTimeout("slow"),
        TimeoutError(),
        type("Timeout", (OSError,), {})("as requests calls it"),
    ],
    ids=lambda error: f"{type(error).__module__}.{type(error).__name__}",
)
def test_timeouts_are_counted(error: BaseException) -> None:
    """Timeouts are known by their class, whichever client raised them."""
    assert upstream_of(error) == {"timeout": 1}


@pytest.mark.anyio
async def test_a_timeout_of_anyio_is_counted() -> None:
    """`anyio.fail_after` around a call is a timeout, on asyncio and on trio."""
    with pytest.raises(TimeoutError) as caught:
        with anyio.fail_after(0):
            await anyio.sleep_forever()
    assert upstream_of(caught.value) == {"timeout": 1}


@pytest.mark.parametrize("client", [httpx, httpx2], ids=["httpx", "httpx2"])
def test_waiting_for_the_own_pool_is_no_upstream_timeout(client: Any) -> None:
    """PoolTimeout says that our own pool is too small."""
    assert upstream_of(client.PoolTimeout("no connection")) == {}


@pytest.mark.parametrize("error", [ValueError("no"), httpx.ConnectError("refused"), SystemExit(2)])
def test_other_errors_are_not_counted(error: BaseException) -> None:
    """What is neither a status nor a timeout is a bug or another fault."""
    assert upstream_of(error) == {}


def test_the_status_of_other_clients_is_seen() -> None:
    """aiohttp's errors carry the status themselves; a response that is None (requests) does not confuse."""
    error: Any = ValueError("as aiohttp")
    error.status, error.response = 503, None
    assert upstream_of(error) == {"503": 1}


def test_a_wrapped_error_counts_as_what_it_was_raised_from() -> None:
    """`raise … from`, a bare raise in an except block, and chains of both lead to the timeout."""

    def explicit() -> None:
        raise RuntimeError("sync failed") from httpx.ReadTimeout("slow")

    def implicit() -> None:
        try:
            explicit()
        except RuntimeError:
            raise KeyError("fingerprint")  # noqa: B904

    for raising in (explicit, implicit):
        with pytest.raises((RuntimeError, KeyError)) as caught:
            raising()
        assert upstream_of(caught.value) == {"timeout": 1}


def test_from_none_hides_the_origin() -> None:
    """`raise … from None` says that the origin does not matter."""
    with pytest.raises(ValueError) as caught:
        try:
            raise TimeoutError
        except TimeoutError:
            raise ValueError("bad product") from None
    assert upstream_of(caught.value) == {}


def test_groups_count_each_leaf_once() -> None:
    """Nested groups are walked; the same error in two branches counts once; a wrapped group is opened."""
    slow = TimeoutError()
    group = ExceptionGroup(
        "batch", [slow, answered(httpx, 504), ExceptionGroup("inner", [slow, ValueError()])]
    )
    assert upstream_of(group) == {"timeout": 1, "504": 1}
    wrapped = RuntimeError("batch failed")
    wrapped.__cause__ = group
    assert upstream_of(wrapped) == {"timeout": 1, "504": 1}


def test_no_exception_can_break_it() -> None:
    """Cycles of causes, very deep chains and groups, and properties that raise are all survived."""
    first, second = ValueError(), KeyError()
    first.__cause__, second.__cause__ = second, first

    class Hostile(Exception):
        @property
        def response(self) -> object:
            raise RuntimeError("no response yet")

    chain: BaseException = TimeoutError()
    group: Exception = TimeoutError()
    for _ in range(5_000):
        outer = ValueError()
        outer.__cause__, chain = chain, outer
        group = ExceptionGroup("deeper", [group])
    assert upstream_of(first, Hostile()) == {}
    assert upstream_of(chain) == {"timeout": 1}
    assert upstream_of(group) == {"timeout": 1}
    while isinstance(group, ExceptionGroup):  # taken apart from outside, for freeing it at once recurses
        (group,) = group.exceptions


def test_upstream_errors_age_out_with_their_runs() -> None:
    """Errors belong to the run that ended next; once that has left the window they are forgotten."""
    history = History(window=2)
    history.record_error(TimeoutError())
    assert history.figures().timeouts == 1
    history.record_run(1.0, 1, "SUCCESS")
    history.record_run(1.0, 1, "SUCCESS")
    assert history.figures().timeouts == 1
    history.record_run(1.0, 1, "SUCCESS")
    assert history.figures().timeouts == 0


def test_timeouts_are_what_the_specification_counts() -> None:
    """502, 504, timeouts of calls and of the run itself; a 503 is shown and not counted."""
    history = History()
    for error in (answered(httpx, 502), answered(httpx, 503), answered(httpx, 504), TimeoutError()):
        history.record_error(error)
    history.record_run(30.0, 10, "timeout")
    figures = history.figures()
    assert figures.upstream == {"502": 1, "503": 1, "504": 1, "timeout": 1}
    assert figures.timeouts == 4
