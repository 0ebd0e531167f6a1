"""What can go wrong, as exception classes.

Each class knows its place on the wire: `status` is the HTTP status that `asynctask.asgi` answers with,
`code` the stable word in the problem document (RFC 9457), `retry_after` the whole seconds after which
the same request may succeed, or None where trying again is pointless.
"""

from __future__ import annotations

from typing import ClassVar


class AsyncTaskError(Exception):
    """Base of every error that asynctask raises on purpose."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal"

    def __init__(self, message: str, *, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ConfigurationError(AsyncTaskError, ValueError):
    """The application is put together wrongly: a bad option, a job registered twice, a missing extra."""

    code = "configuration"


class UnknownJobError(AsyncTaskError, LookupError):
    """No job is registered under that path."""

    status = 404
    code = "unknown_job"


class InvalidKeyError(AsyncTaskError, ValueError):
    """A path parameter or a tenant cannot be part of a key: missing, empty, too long or not text."""

    status = 422
    code = "invalid_key"


class InvalidPayloadError(AsyncTaskError, ValueError):
    """The payload does not fit the job's parameter; the message says where."""

    status = 422
    code = "invalid_payload"


class NotCancelableError(AsyncTaskError):
    """The job was not registered with `cancelable=True`."""

    status = 405
    code = "not_cancelable"


class TenantLimitError(AsyncTaskError):
    """The tenant already has as many runs under way as it may."""

    status = 429
    code = "tenant_limit"


class UnavailableError(AsyncTaskError):
    """Nothing is wrong with the request, but no run can be started or read now. Base of the 503s."""

    status = 503
    code = "unavailable"


class CapacityError(UnavailableError):
    """The process already has `max_running` runs under way."""

    code = "capacity"


class NotStartedError(UnavailableError):
    """The application's lifespan has not been entered, so there is no task group to run a job in."""

    code = "not_started"


class ShuttingDownError(UnavailableError):
    """The application is ending and takes no new runs."""

    code = "shutting_down"


class StoreUnavailableError(UnavailableError):
    """The store cannot be reached; nothing was started."""

    code = "store_unavailable"


class JobError(AsyncTaskError):
    """Raise it in a job to fail the run with a message that every visitor may read.

    Unlike other exceptions its message is shown with `Jobs(expose_errors=False)` too.

    Args:
        message: what the visitor reads as `errorMessage`.
        code: the run's `errorCode`, for programs.
    """

    error_code: str = "error"  # for subclasses that do not call this constructor

    def __init__(self, message: str, *, code: str = "error") -> None:
        super().__init__(message)
        self.error_code = code
