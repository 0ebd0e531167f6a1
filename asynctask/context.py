"""Context: which run the current code belongs to, and its fields on log records.

The caller's contextvars reach a job by themselves: a task group's `start_soon` copies the context of the
call, so the job sees what the trigger's caller had set, and nothing that is set or reset afterwards. What
this module adds is the run itself, as the mapped diagnostic context of the specification's logging.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Final, Protocol

logger: Final = logging.getLogger("asynctask")


class RunFields(Protocol):
    """What a log record says about the run it belongs to."""

    @property
    def job(self) -> str: ...
    @property
    def run_id(self) -> str: ...
    @property
    def tenant(self) -> str: ...


def log(
    run: RunFields, level: int, message: str, *args: object, exc_info: BaseException | None = None
) -> None:
    """Log with a run's fields; a handler that raises must not fail the run, whatever it raises."""
    if not logger.isEnabledFor(level):
        return
    fields = {"job": run.job, "run_id": run.run_id, "tenant": run.tenant}
    try:
        logger.log(level, message, *args, exc_info=exc_info, extra=fields)
    except BaseException:
        if logging.raiseExceptions:  # as the standard handlers do with what fails in them
            with suppress(Exception):
                traceback.print_exc()


current_run: ContextVar[RunFields | None] = ContextVar("asynctask_current_run", default=None)
"""The run whose job the current task belongs to; None outside jobs."""


class RunLogFilter(logging.Filter):
    """Give every record the fields `job`, `run_id` and `tenant`; `-` outside a job.

    The lifespan attaches one to the root logger's handlers. Add it yourself to handlers that other loggers
    own: `handler.addFilter(RunLogFilter())`. Fields that a record already has, e.g. from `extra`, stay.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        run = current_run.get()
        fields = record.__dict__
        fields.setdefault("job", run.job if run else "-")
        fields.setdefault("run_id", run.run_id if run else "-")
        fields.setdefault("tenant", run.tenant if run else "-")
        return True


@contextmanager
def log_fields() -> Iterator[None]:
    """Attach a `RunLogFilter` to the root logger's handlers, and detach it at the end."""
    added = RunLogFilter()
    handlers = [
        handler
        for handler in logging.getLogger().handlers
        if not any(isinstance(known, RunLogFilter) for known in handler.filters)
    ]
    for handler in handlers:
        handler.addFilter(added)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(added)
