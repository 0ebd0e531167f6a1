"""What all tests share."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Generator

# No test depends on the speed of the machine; Hypothesis would fail an example that took 0.2 s.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """The event loops that the engine promises to run on."""
    return str(request.param)


def _fail_if_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    """With ASYNCTASK_NO_SKIPS=1, as in CI, a skipped test is a failed one: what it needs is to be there."""
    if os.environ.get("ASYNCTASK_NO_SKIPS") == "1" and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"not skipped, since ASYNCTASK_NO_SKIPS=1: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _fail_if_skipped(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _fail_if_skipped(report)
    return report
