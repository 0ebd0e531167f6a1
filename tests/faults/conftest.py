"""One stage for all scenarios: each uses keys of its own, and leaves every fault healed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.faults.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def anyio_backend() -> str:
    """The clients are asyncio's; the workers under test run on uvicorn, as in production."""
    return "asyncio"


@pytest.fixture(scope="session")
def theatre(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Redis and workers for the whole session."""
    with Stage(tmp_path_factory.mktemp("faults")) as stage:
        yield stage


@pytest.fixture
def stage(theatre: Stage) -> Iterator[Stage]:
    """The stage, whole at the start of a scenario, and checked at its end."""
    theatre.heal()
    began = time.monotonic()
    yield theatre
    theatre.heal()
    theatre.check(began)
