"""Payload validation: what a trigger brought, fitted to the annotation of the job's second parameter."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from asynctask.errors import ConfigurationError, InvalidPayloadError

MISSING = inspect.Parameter.empty

Converter = Callable[[Any], Any]


def converter(job: str, fn: Callable[..., Any]) -> Converter:
    """Return a function that turns a payload into the argument for `fn`'s second parameter.

    The annotation may be anything msgspec validates (dict, list, dataclass, TypedDict, `msgspec.Struct`,
    `Annotated` constraints, unions, …), or hold pydantic models; without an annotation any JSON value passes.

    Raises:
        ConfigurationError: the annotation cannot be resolved, or is of no type that can be validated.
    """
    parameter = list(inspect.signature(fn).parameters.values())[1]
    expected = _resolve(job, fn, parameter)
    fit = _fitter(job, parameter.name, expected)

    def convert(payload: Any) -> Any:
        if payload is None and parameter.default is not MISSING:
            return parameter.default
        try:
            return fit(payload)
        except InvalidPayloadError as exc:
            if payload is None:
                raise InvalidPayloadError(
                    f"job {job!r} needs a payload for its {parameter.name!r}, and none was sent: {exc}"
                ) from None
            raise

    return convert


def no_payload(job: str) -> Converter:
    """Return the converter of a job that takes no payload: an empty one passes, as many clients send `{}`."""

    def convert(payload: Any) -> None:
        if payload is not None and payload != {}:
            raise InvalidPayloadError(
                f"job {job!r} takes no payload; send none, or give its function a second parameter"
            )

    return convert


def _resolve(job: str, fn: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    if parameter.annotation is MISSING:
        return Any
    # Only this annotation is resolved: that of `run` may be importable for type checkers alone.
    holder = types.SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
    plain = fn.func if isinstance(fn, functools.partial) else fn
    plain = plain if inspect.isroutine(plain) else getattr(plain, "__call__", plain)  # noqa: B004
    namespace = getattr(inspect.unwrap(plain), "__globals__", {})
    try:
        return typing.get_type_hints(holder, namespace, include_extras=True)[parameter.name]
    except Exception as exc:
        raise ConfigurationError(
            f"job {job!r}: cannot resolve the annotation {parameter.annotation!r} of {parameter.name!r} "
            f"({exc}); import or define it at module level, outside `if TYPE_CHECKING`"
        ) from exc


def _fitter(job: str, name: str, expected: Any) -> Converter:
    try:
        msgspec.json.Decoder(expected)
        others = list(_others(msgspec.inspect.type_info(expected), set()))
    except Exception as exc:
        raise ConfigurationError(f"job {job!r}: {name!r} cannot be validated as {expected!r}: {exc}") from exc
    for other in others:
        if hasattr(other, "model_validate"):
            return _pydantic(job, name, expected)
        raise ConfigurationError(
            f"job {job!r}: {name!r} is annotated {expected!r}, and JSON cannot be validated to {other!r}; "
            "use a dict, dataclass, TypedDict, msgspec.Struct or pydantic model"
        )

    def fit(payload: Any) -> Any:
        if isinstance(expected, type) and type(payload) is expected and expected not in (dict, list):
            return payload
        try:
            return msgspec.convert(payload, expected, str_keys=True)  # in JSON every key is text
        except (msgspec.ValidationError, RecursionError, OverflowError) as exc:
            raise InvalidPayloadError(f"the payload does not fit {name!r} of job {job!r}: {exc}") from None

    return fit


def _others(known: Any, seen: set[int]) -> Iterator[type]:
    """The classes within a type that are none of msgspec's to validate."""
    if isinstance(known, msgspec.inspect.CustomType):
        yield known.cls
    elif isinstance(known, tuple | msgspec.inspect.Type | msgspec.inspect.Field) and id(known) not in seen:
        seen.add(id(known))  # a type may hold itself
        for part in known if isinstance(known, tuple) else msgspec.structs.astuple(known):
            yield from _others(part, seen)


def _pydantic(job: str, name: str, expected: Any) -> Converter:
    from pydantic import TypeAdapter, ValidationError  # the application has it: it is in the annotation

    adapter = TypeAdapter(expected)

    def fit(payload: Any) -> Any:
        try:
            return adapter.validate_python(payload)
        except ValidationError as exc:
            places = (
                f"{error['msg']} - at `{'.'.join(['$', *map(str, error['loc'])])}`"
                for error in exc.errors(include_url=False, include_input=False)[:5]
            )
            raise InvalidPayloadError(
                f"the payload does not fit {name!r} of job {job!r}: {'; '.join(places)}"
            ) from None

    return fit
