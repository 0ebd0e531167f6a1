"""The registry: which job stands behind a path, and that no request could mean two."""

from __future__ import annotations

import pytest

from asynctask.errors import ConfigurationError, UnknownJobError
from asynctask.job import Job
from asynctask.registry import Registry
from asynctask.run import Run


async def work(run: Run) -> None:
    """A job."""


def registry_of(*paths: str) -> Registry:
    """A registry of jobs under these paths."""
    registry = Registry()
    for path in paths:
        registry.add(Job(path, work))
    return registry


def test_jobs_are_found_by_their_path() -> None:
    """In the order they were registered; an unknown one is 404, and the message says which there are."""
    registry = registry_of("b", "a/{x}")
    assert list(registry.jobs) == ["b", "a/{x}"]
    assert registry.find("a/{x}").names == ("x",)
    with pytest.raises(UnknownJobError, match=r"'a/1'; registered: 'a/\{x\}', 'b'") as caught:
        registry.find("a/1")
    assert caught.value.status == 404
    with pytest.raises(UnknownJobError, match="registered: none"):
        Registry().find("a")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("a", "a"),
        ("a", "a/cancel"),
        ("a/status", "{x}/status"),
        ("files/{name}", "files/{id}"),
        ("{x}", "cancel"),
        ("a/{x}", "a/cancel"),
    ],
)
def test_two_jobs_that_one_request_could_mean_are_refused(first: str, second: str) -> None:
    """In either order, at registration: the one that is routed first would hide the other."""
    for pair in ((first, second), (second, first)):
        with pytest.raises(ConfigurationError, match="would both answer"):
            registry_of(*pair)


def test_jobs_side_by_side() -> None:
    """Neighbours, prefixes and words that only look like verbs are fine."""
    registry = registry_of("a", "b", "a/b", "a/{x}/c", "statuses", "files/{name}/events/list", "status")
    assert len(registry.jobs) == 7


def test_a_frozen_registry_refuses_more() -> None:
    """A job that is registered after the routes were made would have none."""
    registry = registry_of("a")
    registry.freeze()
    with pytest.raises(ConfigurationError, match=r"after routes\(jobs\) was called"):
        registry.add(Job("b", work))


def test_two_registries_share_nothing() -> None:
    """No module-level state: each application has its own jobs."""
    registry_of("a")
    assert not Registry().jobs
