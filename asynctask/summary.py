"""Result summaries: whatever a job returns, as JSON within a byte limit.

A run must not lose its outcome because its result holds a NaN or is too large, so nothing here raises:
what JSON cannot hold is replaced, and a result over the limit is replaced by a note and a preview.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
import decimal
import enum
import math
import operator
import pathlib
import uuid
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import msgspec

MAX_BYTES = 16_384
"""Largest summary, in bytes of JSON."""
MAX_DEPTH = 32
"""Deepest nesting; what lies deeper is replaced by `ELLIPSIS`. Bounds cycles too."""
ELLIPSIS = "…"

_SAFE_INTEGER = 2**53 - 1  # beyond it a browser's JSON parser loses digits (RFC 8259, section 6)
_MAX_BITS = 8_192  # Python refuses to print integers of more than 4,300 digits
_PREVIEW = 400


class _TooLarge(Exception):
    """The value has more parts than a summary of `MAX_BYTES` can hold."""


def summarise(value: object, *, limit: int = MAX_BYTES) -> Any:
    """Return `value` as a fresh tree of dict, list, str, int, float, bool and None.

    Dates become ISO 8601 texts, Decimal, UUID and paths texts, sets lists, bytes base64, dataclasses and
    structs objects, enumerations their values, NaN and infinities null, integers beyond 2**53 texts,
    anything unknown its class name in angle brackets.

    Args:
        value: anything.
        limit: the largest JSON encoding, in bytes. Above it the result is
            `{"truncated": true, "type": …, "preview": …}`.
    """
    safe = _Safe(limit)
    try:
        tree = safe.convert(value, 0)
        if len(msgspec.json.encode(tree)) <= limit:
            return tree
    except _TooLarge:
        pass
    return {"truncated": True, "type": type(value).__name__, "preview": _preview(value)}


def is_preview(summary: object) -> bool:
    """Tell whether `summarise` kept only a preview."""
    return isinstance(summary, dict) and summary.keys() == {"truncated", "type", "preview"}


def _preview(value: object) -> str:
    """Show the beginning of a value that is too large, bounded in work whatever its size."""
    if isinstance(value, str):
        return _text(value[:_PREVIEW]) + ELLIPSIS
    tree = _Safe(_PREVIEW, cut=True).convert(value, 0)
    return msgspec.json.encode(tree).decode()[:_PREVIEW] + ELLIPSIS


def _text(value: str) -> str:
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class _Safe:
    """One conversion. `budget` counts the bytes that the parts seen so far need at the least."""

    def __init__(self, budget: int, *, cut: bool = False) -> None:
        self._budget = budget
        self._cut = cut

    def _spend(self, size: int) -> bool:
        """Count `size` bytes; once there are too many, stop (when cutting) or raise."""
        self._budget -= size
        if self._budget >= 0:
            return True
        if self._cut:
            return False
        raise _TooLarge

    def convert(self, value: object, depth: int) -> Any:
        try:
            return self._convert(value, depth)
        except _TooLarge:
            raise
        except BaseException:  # a property, an iterator or __str__ of the user's that fails
            return f"<{type(value).__name__}>"

    def _convert(self, value: Any, depth: int) -> Any:
        match value:
            case None | bool():
                return self._scalar(value, 4)
            case enum.Enum():
                return self.convert(value.value, depth + 1) if depth <= MAX_DEPTH else ELLIPSIS
            case str():
                return (
                    self._scalar(_text(value), len(value))
                    if len(value) <= self._budget
                    else self._long(value)
                )
            case int():
                return self._integer(value)
            case float():
                return self._scalar(float(value) if math.isfinite(value) else None, 3)
            case bytes() | bytearray():
                if len(value) > self._budget:
                    return self._long("")
                return self._scalar(base64.b64encode(value).decode(), len(value))
            case datetime.datetime() | datetime.date() | datetime.time():
                return self._scalar(value.isoformat(), 8)
            case datetime.timedelta():
                return self._scalar(value.total_seconds(), 3)
            case decimal.Decimal() | uuid.UUID() | pathlib.PurePath():
                return self._scalar(_text(str(value)), 1)
        if depth >= MAX_DEPTH:
            return ELLIPSIS
        match value:
            case Mapping():
                return self._object(value.items(), depth)
            case list() | tuple():
                return self._array(value, depth)
            case AbstractSet():
                return self._array(self._ordered(value), depth)
            case msgspec.Struct():
                return self._object(((f, getattr(value, f)) for f in value.__struct_fields__), depth)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return self._object(((f.name, getattr(value, f.name)) for f in dataclasses.fields(value)), depth)
        if callable(dump := getattr(type(value), "model_dump", None)):  # pydantic, if the application has it
            return self.convert(dump(value), depth + 1)
        if callable(getattr(type(value), "__index__", None)):  # numpy's integers and the like
            return self._integer(operator.index(value))
        if callable(getattr(type(value), "__float__", None)):  # its floats, and fractions
            return self.convert(float(value), depth)
        return self._scalar(f"<{type(value).__name__}>", 4)

    def _ordered(self, value: AbstractSet[Any]) -> Iterable[Any]:
        """Give a set the same order in every process, where that is cheap and possible."""
        try:
            return sorted(value) if len(value) <= self._budget else value
        except TypeError:
            return value

    def _scalar(self, value: Any, size: int) -> Any:
        return value if self._spend(size) else ELLIPSIS

    def _long(self, value: str) -> str:
        self._spend(self._budget + 1)
        return _text(value[:_PREVIEW]) + ELLIPSIS

    def _integer(self, value: int) -> Any:
        if -_SAFE_INTEGER <= value <= _SAFE_INTEGER:
            return self._scalar(int(value), 1)
        bits = value.bit_length()
        return self._scalar(str(int(value)) if bits <= _MAX_BITS else f"<integer of {bits} bits>", 16)

    def _array(self, items: Iterable[Any], depth: int) -> list[Any]:
        out: list[Any] = []
        for item in items:
            if not self._spend(2):
                out.append(ELLIPSIS)
                break
            out.append(self.convert(item, depth + 1))
        return out

    def _object(self, items: Iterable[tuple[Any, Any]], depth: int) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for key, item in items:
            if not self._spend(4):
                out[ELLIPSIS] = ELLIPSIS
                break
            name = self._name(key)
            out[name] = self.convert(item, depth + 1)
        return out

    def _name(self, key: Any) -> str:
        if isinstance(key, tuple):
            name = ",".join(str(self.convert(part, MAX_DEPTH)) for part in key)
        elif isinstance(key, bool):
            name = "true" if key else "false"
        else:
            plain = self.convert(key, MAX_DEPTH)
            name = "null" if plain is None else str(plain)
        self._spend(len(name))
        return name
