"""Running a self-test in the engine's Python, and judging what it answers."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from configurator.asking import ask
from configurator.collector.redaction import redact_json, redact_text
from configurator.content import ROOT
from configurator.kerneltests.model import Answer, Check, Chosen, Promise, Result, Verdict

if TYPE_CHECKING:
    from configurator.signals import Stop

_WORST: tuple[Verdict, ...] = ("wrong", "slow", "not_run", "ok")
"""What was not run is not ok, whatever else was."""
_CUT_OFF = 124


def run_selftest(chosen: Chosen, python: str, stop: Stop, timeout_s: float) -> Result:
    """Run one self-test as a process of its own, which cannot outlive `timeout_s` seconds.

    Whatever it does is a result: a crash, a silence and an answer that cannot be read are `wrong`.
    """
    settings = json.dumps({"packages": list(chosen.packages)})
    begin = time.monotonic()
    code, out, err = ask(
        [python, str(chosen.path.resolve()), settings], _environment(), stop, timeout_s
    )
    seconds = time.monotonic() - begin
    answer, why = read_answer(out) if code == 0 else (None, how_it_ended(code, err))
    if answer is None:
        return Result(chosen.name, "wrong", why, seconds, promises=chosen.promises)
    return judged(chosen, answer, seconds)


def _environment() -> dict[str, str]:
    """Ours, with what self-tests share on the path: a user's file lies in another folder."""
    paths = [*filter(None, [os.environ.get("PYTHONPATH")]), str(ROOT / "kernels")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}


def read_answer(out: str) -> tuple[Answer | None, str]:
    """The answer on the last line of what a self-test printed, or why there is none."""
    line = next((line for line in reversed(out.splitlines()) if line.strip()), "")
    try:
        # No text of Python's JSON that is none of the standard's, as NaN.
        found = _legible(redact_json(json.loads(line, parse_constant=_refuse)))
        return Answer.model_validate(found), ""
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the whole"
        return None, f"its answer is no self-test's: {_legible(place)}: {first['msg']}"
    except (ValueError, RecursionError):
        shown = redact_text(line.strip()[:100])
        return None, f"its last line is no JSON object: {shown!r}" if line else "it printed nothing"


def _legible(value: Any) -> Any:
    """The same JSON value with a space for what would steer a terminal."""
    if isinstance(value, str):
        return "".join(c if c.isprintable() else " " for c in value)
    if isinstance(value, dict):
        return {_legible(name): _legible(item) for name, item in value.items()}
    return [_legible(item) for item in value] if isinstance(value, list) else value


def _refuse(text: str) -> Any:
    raise ValueError(text)


def how_it_ended(code: int, err: str) -> str:
    """Why a process gave no answer, with its last line."""
    last = next((line.strip() for line in reversed(err.splitlines()) if line.strip()), "")
    last = str(_legible(redact_text(last[:300])))
    if code == _CUT_OFF and last:
        return last
    if code < 0:
        try:
            how = f"crashed: {signal.Signals(-code).name}"
        except ValueError:
            how = f"crashed: signal {-code}"
    else:
        how = f"crashed: exit code {code}"
    return f"{how}; its last line: {last}" if last else how


def judged(chosen: Chosen, answer: Answer, seconds: float) -> Result:
    """The verdict over all checks, and over what is promised of the figures."""
    checks = [*answer.checks, *_unkept(chosen.promises, answer)]
    verdict = min((check.verdict for check in checks), key=_WORST.index)
    return Result(
        chosen.name, verdict, _reason(verdict, checks), seconds, tuple(checks),
        tuple(answer.figures.items()), tuple(answer.machine.items()), chosen.promises,
    )  # fmt: skip


def _unkept(promises: Sequence[Promise], answer: Answer) -> list[Check]:
    """A check for each promise; none where the machine could not measure the figure."""
    checks = []
    for promise in promises:
        found = answer.figures.get(promise.figure)
        name = f"promise of {promise.kernel}"
        wanted = f"{promise.figure} of at least {promise.least:g}"
        if found is None:
            if all(check.verdict == "ok" for check in answer.checks):
                reason = f"{wanted} is promised, and the self-test reports none"
                checks.append(Check(name=name, verdict="wrong", reason=reason))
        elif found.value < promise.least:
            spread = f"{found.value:g} ({found.low:g} to {found.high:g}, {found.runs} runs)"
            reason = f"{promise.figure} is {spread}, below the promised {promise.least:g}"
            checks.append(Check(name=name, verdict="slow", reason=reason))
        else:
            reason = f"{promise.figure} is {found.value:g}, promised {promise.least:g}"
            checks.append(Check(name=name, verdict="ok", reason=reason))
    return checks


def _reason(verdict: Verdict, checks: Sequence[Check]) -> str:
    """What the verdict rests on: the worst checks' reasons."""
    if verdict == "ok":
        return ""
    told = [check for check in checks if check.verdict == verdict]
    return "; ".join(
        check.reason if check.name == "all" else f"{check.name}: {check.reason or verdict}"
        for check in told
    )
