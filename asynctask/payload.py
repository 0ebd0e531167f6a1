"""Payload validation: what a trigger brought, fitted to the annotation of the job's second parameter."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable
from typing import Any

import msgspec

from asynctask.errors import ConfigurationError, InvalidPayloadError

MISSING = inspect.Parameter.empty

Converter = Callable[[Any], Any]


def converter(job: str, fn: Callable[..., Any]) -> Converter:
    """Return a function that turns a payload into the argument for `fn`'s second parameter.

    The annotation may be anything msgspec validates (dict, list, dataclass, TypedDict, `msgspec.Struct`,
    `Annotated` constraints, unions, …) or a pydantic model; without an annotation any JSON value passes.

    Raises:
        ConfigurationError: the annotation cannot be resolved, or is of no type that can be validated.
    """
    parameter = list(inspect.signature(fn).parameters.values())[1]
    expected = _resolve(job, fn, parameter)
    fit = (
        _pydantic(expected)
        if hasattr(expected, "model_validate")
        else _msgspec(job, parameter.name, expected)
    )

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
    namespace = getattr(inspect.unwrap(fn), "__globals__", {})
    try:
        return typing.get_type_hints(holder, namespace, include_extras=True)[parameter.name]
    except Exception as exc:
        raise ConfigurationError(
            f"job {job!r}: cannot resolve the annotation {parameter.annotation!r} of {parameter.name!r} "
            f"({exc}); import or define it at module level, outside `if TYPE_CHECKING`"
        ) from exc


def _msgspec(job: str, name: str, expected: Any) -> Converter:
    try:
        msgspec.json.Decoder(expected)
        known = msgspec.inspect.type_info(expected)
    except Exception as exc:
        raise ConfigurationError(f"job {job!r}: {name!r} cannot be validated as {expected!r}: {exc}") from exc
    if isinstance(known, msgspec.inspect.CustomType):
        raise ConfigurationError(
            f"job {job!r}: {name!r} is annotated {expected!r}, which JSON cannot be validated to; "
            "use a dict, dataclass, TypedDict, msgspec.Struct or pydantic model"
        )

    def fit(payload: Any) -> Any:
        if isinstance(expected, type) and type(payload) is expected and expected not in (dict, list):
            return payload
        try:
            return msgspec.convert(payload, expected)
        except (msgspec.ValidationError, RecursionError, OverflowError) as exc:
            raise InvalidPayloadError(f"the payload does not fit {name!r} of job {job!r}: {exc}") from None

    return fit


def _pydantic(model: Any) -> Converter:
    def fit(payload: Any) -> Any:
        try:
            return model.model_validate(payload)
        except ValueError as exc:  # pydantic's ValidationError is one; pydantic itself is not imported
            errors = getattr(exc, "errors", None)
            if not callable(errors):
                raise InvalidPayloadError(str(exc)) from None
            places = (
                f"{error['msg']} - at `{'.'.join(['$', *map(str, error['loc'])])}`"
                for error in errors(include_url=False, include_input=False)[:5]
            )
            raise InvalidPayloadError(
                f"the payload does not fit {model.__name__}: {'; '.join(places)}"
            ) from None

    return fit
