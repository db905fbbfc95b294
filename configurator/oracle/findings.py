"""What the engine says about a launch, as findings on the words of the launch."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from configurator.launch import Launch
from configurator.oracle.client import OracleResult
from configurator.rules import Finding, Severity
from configurator.source import DataPath
from configurator.validate import Diagnostic

_AUTOMATIC = (None, "", "auto", "default")
"""Asking for these leaves the decision to the engine."""
_PLACES = ("model_path", "speculative_draft_model_path", "tokenizer_path", "config")
"""Where files lie; the oracle itself puts others in their place."""
_SAME = {("half", "float16"), ("float", "float32"), ("fp8_e4m3fn", "fp8_e4m3")}
"""Values that the engine spells in another way, asked and resolved."""
_RENAMED = {("NEXTN", "EAGLE")}
"""Asked and resolved values that mean the same, though reports show only the second."""


@dataclass(frozen=True, slots=True)
class OracleFinding(Finding):
    """A finding with the identity that a rule's findings get from their rule."""

    code: str = ""
    name: str = ""
    severity: Severity = "error"
    source: str = ""


def findings(
    launch: Launch, result: OracleResult, ours: Iterable[Diagnostic] = ()
) -> list[OracleFinding]:
    """Everything the engine's answer says about a launch.

    Args:
        launch: what was asked about.
        result: the engine's answer.
        ours: what the rules found for the same launch, to see where they and the engine differ.
    """
    found = [*_availability(launch, result)]
    if result.state == "refused":
        found += _refused(launch, result)
    if result.state == "resolved":
        found += _changed(launch, result)
    if result.state in ("refused", "resolved"):
        found += [_said(launch, result, text) for text in result.warnings]
        found += _differing(launch, result, ours)
    return found


def _availability(launch: Launch, result: OracleResult) -> Iterator[OracleFinding]:
    if result.state in ("skipped", "crashed"):
        verb = "did not judge this" if result.state == "skipped" else "gave no answer"
        yield _availability_finding(f"the engine {verb}: {result.error}", _remedy(result))
    elif launch.engine.version != result.version:
        yield _availability_finding(
            f"judged by SGLang {result.version}, and this launch is for {launch.engine.version}",
            f"name a Python with SGLang {launch.engine.version}",
        )
    if result.notes and result.state != "skipped":
        yield _availability_finding(f"judged with assumptions: {'; '.join(result.notes)}", "")


def _remedy(result: OracleResult) -> str:
    if "no directory with a config.json" in result.error:
        return "run it where the checkpoint is, or give its config.json"
    if "which GPU" in result.error:
        return "name the hardware, as h200"
    return ""


def _availability_finding(message: str, remedy: str) -> OracleFinding:
    return OracleFinding(
        (),
        message,
        remedy,
        code="ORC001",
        name="oracle-limits",
        severity="info",
        source="the oracle",
    )


def _refused(launch: Launch, result: OracleResult) -> Iterator[OracleFinding]:
    if _is_of_this_installation(result.error):
        yield _availability_finding(
            f"the engine refuses for what its Python lacks: {result.error}",
            "ask a Python of the image that serves",
        )
        return
    message = f"SGLang {result.version} refuses this launch: {result.error}"
    remedy = "change the argument that it names; the engine would not start"
    if _is_a_slip(result.error):
        # An exception that nobody raised on purpose names no argument.
        message = f"SGLang {result.version} fails over these arguments: {result.error}"
        remedy = f"look at {result.where} for what it needs; the engine would not start"
    yield OracleFinding(
        _named(launch, result.error),
        message,
        remedy,
        code="ORC101",
        name="engine-refuses",
        severity="error",
        source=result.where,
    )


def _is_of_this_installation(error: str) -> bool:
    return bool(re.search(r"not installed|pip install|No module named", error))


def _is_a_slip(error: str) -> bool:
    return error.startswith(("TypeError", "AttributeError", "KeyError", "IndexError"))


def _changed(launch: Launch, result: OracleResult) -> Iterator[OracleFinding]:
    for name, asked in result.asked.items():
        if name in _PLACES or name not in result.resolved:
            continue
        resolved = result.resolved[name]
        if same(asked, resolved):
            continue
        spellings = result.spellings.get(name, [])
        path = _path_of(launch, spellings)
        option = _spelled(launch, spellings) or name
        meant = _meant(name, asked, result)
        by = result.decided_by.get(name)
        yield OracleFinding(
            path,
            f"{option} asks for {_shown(asked)}, and SGLang {result.version} makes it "
            f"{_shown(resolved)}{meant}",
            "" if meant else f"write {_shown(resolved)}, or change what the engine objects to",
            code="ORC102",
            name="engine-changes-value",
            severity="info" if meant else "warning",
            source=f"SGLang {result.version}" + (f", {by}" if by else ""),
        )


def _meant(name: str, asked: object, result: OracleResult) -> str:
    """How the engine keeps what was asked for under another value or name; else empty."""
    if (str(asked).upper(), str(result.resolved[name])) in _RENAMED:
        return ", its name for the same"
    for other, value in result.resolved.items():
        if other.endswith(f"_{name}") and other not in result.asked and value == asked:
            return f", and {other} {_shown(value)}"
    return ""


def same(asked: object, resolved: object) -> bool:
    """The engine took the value as it was asked for, or was asked to decide."""
    if asked == resolved or asked in _AUTOMATIC or (str(asked), str(resolved)) in _SAME:
        return True
    if isinstance(asked, str):
        parsed = _parsed(asked)
        if parsed is not None:
            return same(parsed, resolved)
        if isinstance(resolved, dict):
            # NAME=PATH becomes a record of both.
            return set(asked.split("=", 1)) <= set(map(str, resolved.values()))
        return asked.lower() == str(resolved).lower()
    if isinstance(asked, dict) and isinstance(resolved, dict):
        # The engine fills in what was left out.
        return all(key in resolved and same(value, resolved[key]) for key, value in asked.items())
    if isinstance(asked, list) and isinstance(resolved, list):
        return len(asked) == len(resolved) and all(map(same, asked, resolved))
    return isinstance(asked, list) and len(asked) == 1 and same(asked[0], resolved)


def _parsed(text: str) -> Any:
    """JSON in the text, when it holds more than one word does."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict | list) else None


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _said(launch: Launch, result: OracleResult, text: str) -> OracleFinding:
    return OracleFinding(
        _named(launch, text),
        f"SGLang {result.version} warns: {text.strip()}",
        code="ORC103",
        name="engine-warns",
        severity="info",
        source=f"log of SGLang {result.version}",
    )


def _differing(
    launch: Launch, result: OracleResult, ours: Iterable[Diagnostic]
) -> Iterator[OracleFinding]:
    if launch.engine.version != result.version:
        return  # Then they may well differ.
    errors = [d for d in ours if d.severity == "error" and not d.code.startswith("ORC")]
    refused = result.state == "refused" and not _is_of_this_installation(result.error)
    if refused and not errors:
        message = f"the engine refuses what no rule here finds wrong: {result.error}"
        yield _difference(_named(launch, result.error), message, "trust the engine")
    if result.state == "resolved":
        for error in errors:
            message = f"the engine takes what {error.code} calls an error: {error.message}"
            remedy = "the engine checks only arguments; trust it if the rule is about these alone"
            yield _difference((), message, remedy)


def _difference(path: DataPath, message: str, remedy: str) -> OracleFinding:
    return OracleFinding(
        path,
        message,
        remedy,
        code="ORC104",
        name="engine-and-rules-differ",
        severity="info",
        source="the oracle",
    )


def _option_words(launch: Launch) -> Iterator[tuple[int, str]]:
    """Index and spelling of every option, the last first, for of several the last counts."""
    for index in reversed(range(len(launch.words))):
        text = launch.words[index].text
        if text.startswith("--"):
            yield index, text.split("=")[0]


def _path_of(launch: Launch, spellings: list[str]) -> DataPath:
    """Where an argument is written, under any spelling or a unique beginning of one."""
    for index, text in _option_words(launch):
        if text in spellings or any(s.startswith(text) for s in spellings if len(text) > 3):
            return launch.words[index].path
    return ()


def _spelled(launch: Launch, spellings: list[str]) -> str | None:
    texts = [text for _, text in _option_words(launch)]
    return next((text for text in texts if text in spellings), next(iter(spellings), None))


def _named(launch: Launch, message: str) -> DataPath:
    """The word a message is about: the longest option whose name it holds."""
    words = sorted(_option_words(launch), key=lambda word: -len(word[1]))
    for index, text in words:
        if re.search(rf"(?<![\w-]){re.escape(text)}(?![\w-])", message):
            return launch.words[index].path
    plain = re.sub(r"[-_]+", "_", message.lower().replace("--", " "))
    for index, text in words:
        name = re.sub(r"-+", "_", text.strip("-").lower())
        if len(name) > 3 and re.search(rf"(?<![a-z0-9_]){re.escape(name)}(?![a-z0-9_])", plain):
            return launch.words[index].path
    for index, _ in words:
        value = "".join(word.text for word in launch.words[index + 1 : index + 2])
        if len(value) > 3 and _squeezed(value) in _squeezed(message):
            return launch.words[index].path
    return ()


def _squeezed(text: str) -> str:
    return re.sub(r"[-_ ]+", "", text.lower())
