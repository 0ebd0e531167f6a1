"""Texts that leave the server: what an exception says, without what it should not say."""

from __future__ import annotations

import re

from asynctask.errors import JobError

MAX_MESSAGE = 500
"""Longest message, in characters."""
MAX_LEAVES = 5
"""How many exceptions of a group are named."""

_SCANNED = 8 * MAX_MESSAGE  # bounds the work on a message of megabytes
_UNPRINTABLE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
_SPACE = re.compile(r"\s+")
_REDACTED = "***"
# The end of a name is enough: "db_password", "accessToken" and "X-Amz-Signature" are secrets too.
_SECRET_NAME = (
    r"pass(?:word|wd|phrase|code)?|secret|token|(?:api|access|account|private|shared)[-_]?key"
    r"|signature|credentials?|(?<![a-z])(?:pwd|auth|sig|jwt)"
)
_REDACTIONS = (
    # scheme://user:password@host, also where the password holds what should have been encoded: "@" or "/"
    (re.compile(r"(?<=://)(?:[^\s/?#]+|[^\s/?#@:]*:(?!\d+(?:[/?#]|$))\S{1,256})@"), f"{_REDACTED}@"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9+/=._~-]{6,}"), rf"\1 {_REDACTED}"),
    (
        re.compile(
            rf"(?i)({_SECRET_NAME})(['\"]?\s*[=:]\s*)(?!['\"]?\*\*\*)"
            r"(?:\"[^\"]*\"?|'[^']*'?|[^\s&;,'\"<>]+)"
        ),
        rf"\1\2{_REDACTED}",
    ),
)


def clean(text: str, limit: int = MAX_MESSAGE) -> str:
    """Make a text fit to be shown: credentials redacted, control characters dropped, length capped.

    Args:
        text: any text.
        limit: the longest result, in characters.
    """
    cut = len(text) > _SCANNED
    text = _SPACE.sub(" ", _UNPRINTABLE.sub("", text[:_SCANNED])).strip()
    for pattern, replacement in _REDACTIONS:
        text = pattern.sub(replacement, text)
    if len(text) > limit or cut:
        text = text[: limit - 1] + "…"
    return text


def describe(exc: BaseException) -> str:
    """Say what an exception says; never empty, never raises.

    An exception without a text, or whose text raises, gives its class name. A group names its leaves.
    Credentials in URLs and the like are redacted.
    """
    try:
        text = clean(_describe_group(exc)) if isinstance(exc, BaseExceptionGroup) else text_of(exc)
    except BaseException:
        text = ""
    return text or type(exc).__name__


def text_of(value: object) -> str:
    """Return `str(value)`, cleaned; the empty text where that raises."""
    try:
        return clean(str(value))
    except BaseException:
        return ""


def _describe_group(group: BaseExceptionGroup[BaseException]) -> str:
    leaves: list[BaseException] = []
    stack: list[BaseException] = [group]
    while stack:
        exc = stack.pop()
        if isinstance(exc, BaseExceptionGroup):
            stack.extend(reversed(exc.exceptions))
        else:
            leaves.append(exc)
    if len(leaves) == 1 and isinstance(leaves[0], JobError):
        return describe(leaves[0])
    named = []
    for leaf in leaves[:MAX_LEAVES]:
        name, text = type(leaf).__name__, describe(leaf)
        named.append(name if text == name else f"{name}: {text}")
    if len(leaves) > MAX_LEAVES:
        named.append(f"and {len(leaves) - MAX_LEAVES} more")
    return (f"{len(leaves)} errors: " if len(leaves) > 1 else "") + "; ".join(named)
