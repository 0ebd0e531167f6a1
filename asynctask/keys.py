"""Keys: what may run once at a time.

A key is the job's path with its parameters filled in, and the tenant. Parameters are percent-encoded, so
that ("a/b", "c") and ("a", "b/c") differ; the tenant is a part of its own and is never joined to the path.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote

from asynctask.errors import ConfigurationError, InvalidKeyError

MAX_PART = 256
"""Longest path parameter or tenant, in characters."""

_SEGMENT = re.compile(r"[A-Za-z0-9._~-]+|\{([A-Za-z_][A-Za-z0-9_]*)\}")
# Control characters would forge log lines; lone surrogates cannot be written as UTF-8.
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


class Key(NamedTuple):
    """What a run is a run of. Two runs with equal keys never overlap."""

    job: str
    """The job's path as registered, e.g. `imports/{file_id}/refresh`."""
    path: str
    """The path with its parameters filled in, percent-encoded, e.g. `imports/7/refresh`."""
    tenant: str
    """Whom the run belongs to; the empty text where everybody shares it."""


def parameters(path: str) -> tuple[str, ...]:
    """Return the names of the parameters in a job's path, in order.

    Raises:
        ConfigurationError: the path is not segments of letters, digits, `.`, `_`, `~`, `-` or `{name}`,
            joined by single slashes.
    """
    if not isinstance(path, str) or not path:
        raise ConfigurationError(f"a job's path is a text like 'duplicates/check', not {path!r}")
    names: list[str] = []
    for segment in path.split("/"):
        match = _SEGMENT.fullmatch(segment)
        if match is None:
            hint = (
                "leave out the slash at its start and end and double slashes"
                if segment == ""
                else "use letters, digits, '.', '_', '~', '-' or one {name} for a segment"
            )
            raise ConfigurationError(f"job path {path!r} has the segment {segment!r}: {hint}")
        if set(segment) == {"."}:
            raise ConfigurationError(f"job path {path!r} has the segment {segment!r}, which clients resolve")
        if match[1] is not None:
            if match[1] in names:
                raise ConfigurationError(f"job path {path!r} names the parameter {match[1]!r} twice")
            names.append(match[1])
    return tuple(names)


def overlap(a: str, b: str) -> bool:
    """Tell whether one request path could match both of two job paths."""
    left, right = a.split("/"), b.split("/")
    return len(left) == len(right) and all(
        x == y or x[0] == "{" or y[0] == "{" for x, y in zip(left, right, strict=True)
    )


def check_part(what: str, value: object) -> str:
    """Return `value` if it can be part of a key.

    Raises:
        InvalidKeyError: it is not text, is longer than `MAX_PART` characters, or holds control characters
            or lone surrogates.
    """
    if not isinstance(value, str):
        raise InvalidKeyError(f"{what} must be text, not {type(value).__name__}: pass str(value)")
    if len(value) > MAX_PART:
        raise InvalidKeyError(f"{what} has {len(value)} characters; at most {MAX_PART} fit into a key")
    if _FORBIDDEN.search(value):
        raise InvalidKeyError(f"{what} {value!r} holds characters that cannot be part of a key")
    # str() makes a plain copy of a subclass, whose hash and equality could be anything.
    return value if type(value) is str else str.__str__(value)


def make_key(job: str, names: tuple[str, ...], params: Mapping[str, str] | None, tenant: str) -> Key:
    """Fill a job's path with parameters.

    Args:
        job: the path as registered.
        names: the parameters it has, from `parameters(job)`.
        params: a value for each of them.
        tenant: whom the run belongs to.

    Raises:
        InvalidKeyError: a parameter is missing, unknown, empty or unfit (see `check_part`).
    """
    if tenant != "":
        tenant = check_part("the tenant", tenant)
    given = params or {}
    if not names and not given:
        return Key(job, job, tenant)
    if given.keys() != set(names):
        raise InvalidKeyError(
            f"job {job!r} takes the path parameters {list(names)}, but was given {sorted(map(str, given))}"
        )
    path = job
    for name in names:
        value = check_part(f"path parameter {name!r}", given[name])
        if not value:
            raise InvalidKeyError(f"path parameter {name!r} of job {job!r} is empty")
        # The value is quoted, so it holds no brace and cannot be taken for a later parameter.
        path = path.replace(f"{{{name}}}", quote(value, safe=""), 1)
    return Key(job, path, tenant)
