"""Mechanisms in the arguments of a profile: a kernel entry read backwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from configurator.assemble import env_text
from configurator.schema.content import From, Kernel, Option

Change = Callable[[dict[str, Any]], None]


def recognized(kernel: Kernel, profile: dict[str, Any]) -> Change | None:
    """How to say the mechanism in `profile`, whose `extra` has everything it sets.

    None when something it sets is missing or has another value, or when nothing tells that it
    is on.
    """
    args = profile.get("extra", {}).get("args", {})
    env = profile.get("extra", {}).get("env", {})
    options: dict[str, Any] = {}
    if not all(_fits(kernel, n, w, args, options, profile) for n, w in kernel.args.items()):
        return None
    if not all(_fits_env(kernel, name, value, env, options) for name, value in kernel.env.items()):
        return None
    if not set(kernel.args).intersection(args) and not set(kernel.env).intersection(env):
        return None
    wish = {k: v for k, v in options.items() if k != "draft" and v != _default(kernel, k)}
    if "draft" in options:
        wish["draft"] = options["draft"]

    def change(changed: dict[str, Any]) -> None:
        extra = changed["extra"]
        for section, names in (("args", kernel.args), ("env", kernel.env)):
            left = {n: v for n, v in extra.get(section, {}).items() if n not in names}
            extra[section] = left
            if not left:
                del extra[section]
        mechanisms = changed.get("optimizations", {})
        mechanisms[kernel.name] = wish
        _put_before(changed, "optimizations", mechanisms, "evidence")

    return change


def _put_before(data: dict[str, Any], key: str, value: Any, other: str) -> None:
    """Set a key at the place where people look for it."""
    items = [(k, v) for k, v in data.items() if k != key]
    data.clear()
    for name, found in items:
        if name == other:
            data[key] = value
        data[name] = found


def _fits(
    kernel: Kernel,
    name: str,
    wanted: Any,
    args: dict[str, Any],
    options: dict[str, Any],
    profile: dict[str, Any],
) -> bool:
    """The profile sets this argument as the kernel would, with some value of its options."""
    given = args.get(name)
    if not isinstance(wanted, From):
        return given is not None and _words(given) == _words(wanted)
    if wanted.draft:
        options["draft"] = {"same_checkpoint": True}
        return given is not None and given == profile["model"].get("path")
    assert wanted.option is not None
    if given is None:
        return _default(kernel, wanted.option) is None
    value = _typed(kernel.options[wanted.option], given)
    options[wanted.option] = value
    return value is not None


def _fits_env(
    kernel: Kernel, name: str, wanted: Any, env: dict[str, Any], options: dict[str, Any]
) -> bool:
    given = env.get(name)
    if not isinstance(wanted, From):
        return given == env_text(wanted)
    if wanted.option is None:
        return False
    if given is None:
        return _default(kernel, wanted.option) is None
    known = options.get(wanted.option)
    options[wanted.option] = _typed(kernel.options[wanted.option], given)
    return known is None or known == options[wanted.option]


def _words(value: Any) -> list[str]:
    return [str(item) for item in (value if isinstance(value, list | tuple) else [value])]


def _default(kernel: Kernel, option: str) -> Any:
    found = kernel.options.get(option)
    return found.default if found else None


def _typed(option: Option, given: Any) -> Any:
    """The value as the option's type; None when it is none."""
    try:
        if option.type == "int_list":
            return [int(item) for item in _words(given)]
        if option.type == "bool":
            return given if isinstance(given, bool) else {"1": True, "0": False}.get(str(given))
        if isinstance(given, list | bool):
            return None
        return {"int": int, "float": float, "str": str}[option.type](given)
    except ValueError:
        return None
