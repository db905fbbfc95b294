"""The base of every model, and pydantic's errors turned into problems with positions.

The string under a field is its description: `configurator schema` puts it into the JSON Schema
that editors use. It is read from the source there (`docs.py`), not at import, which would cost
every start of the program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from configurator.errors import ConfiguratorError, Position, Problem, did_you_mean
from configurator.source import DataPath

ApiVersion = Literal["configurator/v1"]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=120)]
"""A name that is also a file name."""
EnvName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
ArgName = Annotated[str, StringConstraints(pattern=r"^-{0,2}[A-Za-z][A-Za-z0-9_.-]*$")]
Text = Annotated[str, StringConstraints(min_length=1)]
Known = Literal["yes", "no", "unknown"]
Scalar = str | int | float | bool

_MAPPINGS = ("model_type", "model_attributes_type", "dict_type")
"""What pydantic calls a value that should be a mapping."""
_SECRETS = ("api_key", "admin_api_key", "secrets")
ModelT = TypeVar("ModelT", bound="StrictModel")


class StrictModel(BaseModel):
    """Unknown keys are errors, values are not coerced, instances do not change."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, populate_by_name=True, allow_inf_nan=False
    )


def parse(model: type[ModelT], data: Any, locate: Callable[[DataPath], Position | None]) -> ModelT:
    """`data` as a `model`; every problem at once, each with its position.

    Raises:
        ConfiguratorError: with codes SCH005 (unknown key), SCH006 (missing key) and
            SCH007 (wrong value).
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        details = error.errors(include_url=False)
    grouped: dict[DataPath, list[Any]] = {}
    for detail in details:
        path = _data_path(detail["loc"], data, missing=detail["type"] == "missing")
        grouped.setdefault(path, []).append(detail)
    raise ConfiguratorError(
        _problem(model, group, path, data, locate) for path, group in grouped.items()
    )


def _data_path(loc: tuple[int | str, ...], data: Any, *, missing: bool) -> DataPath:
    """`loc` without pydantic's names of union members, which are not keys of the document."""
    path: list[str | int] = []
    for index, step in enumerate(loc):
        inside = isinstance(data, dict | list)
        absent = missing and index == len(loc) - 1
        if isinstance(data, dict) and (step in data or absent):
            data = data.get(step)
            path.append(step)
        elif isinstance(data, list) and isinstance(step, int) and step < len(data):
            data = data[step]
            path.append(step)
        elif not inside:
            break
    return tuple(path)


def _problem(
    model: type[StrictModel],
    details: list[Any],
    path: DataPath,
    data: Any,
    locate: Callable[[DataPath], Position | None],
) -> Problem:
    # Imported here: only a profile with problems pays for the patterns of secrets.
    from configurator.collector.redaction import redact_text

    kinds = {detail["type"] for detail in details}
    shown = redact_text(dotted(path)) or "the document"
    position = locate(path)
    if "extra_forbidden" in kinds:
        known = field_names(model, path[:-1])
        return Problem(
            "SCH005", f"unknown key {shown!r}", did_you_mean(str(path[-1]), known), position
        )
    if "missing" in kinds:
        return Problem("SCH006", f"{shown!r} is missing", "add it", position)
    if any(step in _SECRETS for step in path) and isinstance(_at(data, path), str):
        # Never repeat what may be a key: findings end up in logs.
        if kinds == {"value_error"}:
            return Problem("SCH007", f"{shown} cannot be used", _expected(details[0]), position)
        remedy = "write {file: PATH} or {env: NAME}"
        return Problem("SCH007", f"{shown} is written in clear", remedy, position)
    value = redact_text(short(_at(data, path)))
    # A union reports every member that did not fit: together they say what would.
    wanted = " or ".join(dict.fromkeys(_expected(detail) for detail in details))
    return Problem("SCH007", f"{shown} is {value}", wanted.replace("or should be", "or"), position)


def _expected(detail: Any) -> str:
    context = detail.get("ctx", {})
    if "pattern" in context:
        return f"write it so that it matches {context['pattern']}"
    if detail["type"] in _MAPPINGS:
        return "write a mapping (KEY: VALUE)"
    if "expected" in context:
        return f"use {context['expected']}"
    message: str = detail["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return message[0].lower() + message[1:]


def _at(data: Any, path: DataPath) -> Any:
    for step in path:
        try:
            data = data[step]
        except (KeyError, IndexError, TypeError):
            return None
    return data


def short(value: Any) -> str:
    """`value` as it is shown in a message: quoted, and at most 60 characters."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    text = "empty (null)" if value is None else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def dotted(path: DataPath) -> str:
    """`("a", "b", 0)` as `a.b[0]`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else str(step)
    return text


def field_names(model: type[StrictModel], path: DataPath) -> list[str]:
    """The keys that `model` knows at `path`; empty where any key may stand."""
    current: Any = model
    for step in path:
        current = _member(current, step)
    found = _model_in(current)
    if found is None:
        return []
    return [field.alias or name for name, field in found.model_fields.items()]


def _member(annotation: Any, step: str | int) -> Any:
    found = _model_in(annotation)
    if found is None:
        return next((a for a in reversed(get_args(annotation)) if a is not type(None)), None)
    for name, field in found.model_fields.items():
        if step in (name, field.alias):
            inner = [a for a in get_args(field.annotation) if a is not type(None)]
            container = getattr(field.annotation, "__origin__", None) in (dict, list, tuple)
            return field.annotation if container or not inner else inner[0]
    return None


def _model_in(annotation: Any) -> type[StrictModel] | None:
    candidates = (annotation, *get_args(annotation))
    if getattr(annotation, "__origin__", None) in (dict, list, tuple):
        return None
    return next((c for c in candidates if isinstance(c, type) and issubclass(c, StrictModel)), None)
