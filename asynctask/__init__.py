"""Turn a slow ASGI endpoint into a job: the trigger returns at once, anybody who may see it polls it."""

from asynctask.batch import Outcome, map_concurrently, stream_concurrently
from asynctask.condition import Assessment, Condition, History
from asynctask.context import RunLogFilter
from asynctask.errors import (
    AsyncTaskError,
    CapacityError,
    ConfigurationError,
    InvalidKeyError,
    InvalidPayloadError,
    JobError,
    NotCancelableError,
    NotStartedError,
    ShuttingDownError,
    StoreUnavailableError,
    TenantLimitError,
    UnavailableError,
    UnknownJobError,
)
from asynctask.jobs import Jobs
from asynctask.remote import PooledTransport
from asynctask.run import Run
from asynctask.snapshot import Snapshot, Status
from asynctask.stores.memory import MemoryStore

__all__ = [
    "Assessment",
    "AsyncTaskError",
    "CapacityError",
    "Condition",
    "ConfigurationError",
    "History",
    "InvalidKeyError",
    "InvalidPayloadError",
    "JobError",
    "Jobs",
    "MemoryStore",
    "NotCancelableError",
    "NotStartedError",
    "Outcome",
    "PooledTransport",
    "Run",
    "RunLogFilter",
    "ShuttingDownError",
    "Snapshot",
    "Status",
    "StoreUnavailableError",
    "TenantLimitError",
    "UnavailableError",
    "UnknownJobError",
    "map_concurrently",
    "stream_concurrently",
]
