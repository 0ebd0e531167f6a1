"""Fixtures of the HTTP tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from tests.asgi.support import Echo, Workshop, application


@pytest.fixture
def shop() -> Workshop:
    """Jobs to trigger."""
    return Workshop()


@pytest.fixture
def echo() -> Echo:
    """A job that takes any payload, and one that takes none."""
    return Echo()


@pytest.fixture
def client(shop: Workshop) -> Iterator[TestClient]:
    """A client of an application that shares its runs among all visitors."""
    with TestClient(application(shop.jobs)) as client:
        yield client
