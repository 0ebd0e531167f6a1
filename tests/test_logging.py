"""Logging: every record of a job says whose it is, and logging never fails a run."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator

import anyio
import anyio.to_thread
import pytest

from asynctask import Jobs, Run, RunLogFilter, Status
from asynctask.context import log, log_fields, logger
from asynctask.keys import Key
from asynctask.testing import drained, run_job

application_log = logging.getLogger("shop.duplicates")


class Records(logging.Handler):
    """Keeps what it is given, as it was at that moment."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.kept.append(copy.copy(record))

    def of(self, name: str) -> list[logging.LogRecord]:
        """The records of one logger."""
        return [record for record in self.kept if record.name == name]


@pytest.fixture
def records() -> Iterator[Records]:
    """A handler of the root logger, as an application configures it before it starts."""
    handler, root, level = Records(), logging.getLogger(), logging.getLogger().level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    yield handler
    root.removeHandler(handler)
    root.setLevel(level)


@pytest.mark.anyio
async def test_every_record_of_a_job_says_whose_it_is(records: Records) -> None:
    """The mapped diagnostic context: application code logs as ever, in child tasks and threads too."""
    jobs = Jobs()

    async def child() -> None:
        application_log.info("in a child")

    @jobs.job("files/{name}")
    async def job(run: Run) -> None:
        application_log.info("in the job")
        await anyio.to_thread.run_sync(application_log.info, "in a thread")
        async with anyio.create_task_group() as group:
            group.start_soon(child)

    async with jobs:
        application_log.info("outside")
        snapshot = await jobs.trigger("files/{name}", tenant="acme", params={"name": "x"})
        await drained(jobs)
        application_log.info("outside")
    fields = {
        record.getMessage(): (record.job, record.run_id, record.tenant)  # type: ignore[attr-defined]
        for record in records.of("shop.duplicates")
    }
    mine = ("files/{name}", snapshot.run_id, "acme")
    assert fields == {
        "in the job": mine,
        "in a thread": mine,
        "in a child": mine,
        "outside": ("-", "-", "-"),
    }


@pytest.mark.anyio
async def test_a_job_that_triggers_another_keeps_its_own_fields(records: Records) -> None:
    """The second run has its own, and the first gets them back unchanged."""
    jobs = Jobs()

    @jobs.job("inner")
    async def inner(run: Run) -> None:
        application_log.info("inner")

    @jobs.job("outer")
    async def outer(run: Run) -> None:
        await jobs.trigger("inner")
        await jobs.wait("inner")
        application_log.info("outer")

    async with jobs:
        await jobs.trigger("outer")
        await jobs.wait("outer")
    assert [(r.getMessage(), r.job) for r in records.of("shop.duplicates")] == [  # type: ignore[attr-defined]
        ("inner", "inner"),
        ("outer", "outer"),
    ]


@pytest.mark.anyio
async def test_the_filter_can_be_added_to_handlers_of_other_loggers() -> None:
    """Such a logger does not propagate, so the lifespan does not find its handler."""
    handler = Records()
    handler.addFilter(RunLogFilter())
    application_log.addHandler(handler)
    application_log.propagate = False
    try:

        async def job(run: Run) -> None:
            application_log.warning("mine")
            application_log.warning("told", extra={"job": "another"})

        snapshot = await run_job(job)
    finally:
        application_log.propagate = True
        application_log.removeHandler(handler)
    first, second = handler.kept
    assert first.run_id == second.run_id == snapshot.run_id  # type: ignore[attr-defined]
    assert (first.job, second.job) == ("job", "another")  # type: ignore[attr-defined]


def test_the_fields_come_and_go_with_the_lifespan(records: Records) -> None:
    """Handlers get the filter once, however many lifespans there are, and are left as they were."""
    mine = RunLogFilter()
    other = Records()
    other.addFilter(mine)
    logging.getLogger().addHandler(other)
    with log_fields(), log_fields():
        assert sum(isinstance(f, RunLogFilter) for f in records.filters) == 1
        assert other.filters == [mine]
    logging.getLogger().removeHandler(other)
    assert records.filters == []
    assert other.filters == [mine]


class Broken(logging.Handler):
    """A handler that fails."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error

    def emit(self, record: logging.LogRecord) -> None:
        raise self.error


@pytest.mark.parametrize("error", [RuntimeError(), SystemExit(), KeyboardInterrupt()])
def test_logging_never_raises(
    error: BaseException, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a handler raises goes where the standard library sends it: to stderr, if anywhere."""
    run = Run(Key("job", "job", ""))
    handler = Broken(error)
    logger.addHandler(handler)
    try:
        log(run, logging.WARNING, "x")
        assert type(error).__name__ in capsys.readouterr().err
        monkeypatch.setattr(logging, "raiseExceptions", False)
        log(run, logging.WARNING, "x")
        assert capsys.readouterr().err == ""
    finally:
        logger.removeHandler(handler)


@pytest.mark.anyio
async def test_a_broken_handler_fails_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 4: start, quarter, error and end are logged into a handler that raises; the outcome stands."""
    monkeypatch.setattr(logging, "raiseExceptions", False)
    monkeypatch.setattr("asynctask.blocking.THRESHOLD", -1.0)
    monkeypatch.setattr(logger, "level", logging.DEBUG)
    handler = Broken(KeyboardInterrupt())
    logger.addHandler(handler)

    async def job(run: Run) -> str:
        run.total = 4
        for _ in range(4):
            run.advance()
        return "x" * 100_000

    async def failing(run: Run) -> None:
        raise ValueError("bad row")

    try:
        assert (await run_job(job)).status is Status.SUCCESS
        assert (await run_job(failing)).error_message == "bad row"
    finally:
        logger.removeHandler(handler)


@pytest.mark.anyio
async def test_the_engines_own_records_have_the_fields_without_any_filter() -> None:
    """A handler of the logger "asynctask" needs nothing added to it."""
    handler = Records()
    logger.addHandler(handler)
    try:

        async def job(run: Run) -> None:
            raise ValueError("bad row")

        snapshot = await run_job(job, tenant="acme")
    finally:
        logger.removeHandler(handler)
    assert handler.kept
    for record in handler.kept:
        fields = (record.job, record.run_id, record.tenant)  # type: ignore[attr-defined]
        assert fields == ("job", snapshot.run_id, "acme")
