"""JSON Schema of the YAML files, with descriptions from the strings under the fields."""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap
from typing import Any

from configurator.content import Library
from configurator.schema import claims, content, measurement, profile
from configurator.schema.base import StrictModel
from configurator.schema.content import Option

_MODELS: dict[str, type[StrictModel]] = {
    "deployment": profile.Profile,
    "hardware": content.Hardware,
    "model": content.Model,
    "engine": content.Engine,
    "kernel": content.Kernel,
    "measurement": measurement.Measurement,
    "claims": claims.Claims,
}
_OPTION_TYPES: dict[str, dict[str, Any]] = {
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "str": {"type": "string"},
    "int_list": {"type": "array", "items": {"type": "integer"}, "minItems": 1},
}


def json_schema(kind: str, library: Library) -> dict[str, Any]:
    """The schema of one kind of file.

    In a deployment every name is listed that `library` knows, and under each mechanism the
    options of its kernel entry. Keys may also be null, which removes what `extends` brought.
    """
    schema = _MODELS[kind].model_json_schema(by_alias=True)
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    _describe(schema)
    if kind == "deployment":
        _name_content(schema, library)
        _allow_layers(schema)
    return schema


def field_descriptions(model: type[StrictModel]) -> dict[str, str]:
    """The string under each field of `model`, by the field's name in YAML."""
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if not (issubclass(base, StrictModel) and base is not StrictModel):
            continue
        tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
        body = tree.body[0].body  # type: ignore[attr-defined]  # a class statement
        for statement, following in itertools.pairwise(body):
            is_field = isinstance(statement, ast.AnnAssign)
            if is_field and isinstance(following, ast.Expr):
                name = statement.target.id
                alias = model.model_fields[name].alias if name in model.model_fields else None
                found[alias or name] = inspect.cleandoc(following.value.value)  # type: ignore[attr-defined]
    return found


def _describe(schema: dict[str, Any]) -> None:
    models = {
        name: value
        for module in (profile, content, claims)
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, StrictModel)
    }
    parts = {schema["title"]: schema, **schema.get("$defs", {})}
    for name, part in parts.items():
        model = models.get(name)
        if model is None or "properties" not in part:
            continue
        for key, text in field_descriptions(model).items():
            part["properties"].get(key, {})["description"] = text


def _name_content(schema: dict[str, Any], library: Library) -> None:
    definitions = schema["$defs"]
    _enumerate(definitions["HardwareRef"], "name", library.names("hardware"))
    _enumerate(definitions["ModelRef"], "name", library.names("model"))
    _enumerate(definitions["EngineRef"], "build", library.names("engine"))
    common = definitions.pop("Optimization")
    common["additionalProperties"] = False
    properties: dict[str, Any] = {}
    for name in library.names("kernel"):
        kernel = library.kernel(name)
        options = {key: _option(option) for key, option in kernel.options.items()}
        properties[name] = {
            **common,
            "title": name,
            "description": kernel.summary,
            "properties": {**common["properties"], **options},
        }
    wishes = schema["properties"]["optimizations"]
    wishes.pop("additionalProperties", None)
    wishes.update(type="object", properties=properties, additionalProperties=False)


def _enumerate(part: dict[str, Any], key: str, names: list[str]) -> None:
    kept = {k: v for k, v in part["properties"][key].items() if k in ("description", "title")}
    part["properties"][key] = {"enum": names, **kept}


def _option(option: Option) -> dict[str, Any]:
    schema: dict[str, Any] = {**_OPTION_TYPES[option.type], "description": option.description}
    if option.choices:
        schema["enum"] = option.choices
    if option.min is not None:
        schema["minimum"] = option.min
    if option.max is not None:
        schema["maximum"] = option.max
    return schema


def _allow_layers(schema: dict[str, Any]) -> None:
    """A layer states only what differs: with `extends` nothing else is required."""
    required = schema.pop("required", [])
    head = [key for key in required if key in ("apiVersion", "kind", "name")]
    schema["required"] = head
    schema["anyOf"] = [{"required": ["extends"]}, {"required": required}]
    for part in (schema, *schema["$defs"].values()):
        if part is not schema:
            part.pop("required", None)
        for key, value in part.get("properties", {}).items():
            if key not in head:
                part["properties"][key] = _or_null(value)
    wishes = schema["properties"]["optimizations"]["anyOf"][0]["properties"]
    for name, value in wishes.items():
        value.pop("required", None)
        value["properties"] = {key: _or_null(part) for key, part in value["properties"].items()}
        wishes[name] = {**_or_null(value), "description": value["description"]}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    described = {key: schema[key] for key in ("description",) if key in schema}
    bare = {key: value for key, value in schema.items() if key != "description"}
    return {"anyOf": [bare, {"type": "null"}], **described}
