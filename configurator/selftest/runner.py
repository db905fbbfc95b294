"""Running the matrix: servers side by side, every test judged, nothing left behind."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Literal

from configurator.errors import ConfiguratorError
from configurator.evidence.model import Evidence
from configurator.judge import Judgement, expectation_from, judge
from configurator.loader import Validators
from configurator.selftest.engine import Launcher
from configurator.selftest.matrix import Expected, Matrix, Start, Trial, View
from configurator.verdicts import Rung, Verdict

Outcome = Literal["clean", "alarm", "detected", "missed"]


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one test."""

    test: Trial
    outcome: Outcome
    faults: tuple[str, ...] = ()
    """Why it is an alarm or was missed."""
    seen: tuple[str, ...] = ()
    """What was said, of everything that is expected or refuted."""
    state: str = ""
    """State of the server, with the reason where it is not ready."""
    seconds: float = 0.0
    """With the start of the server, where this test is the first that needs it."""


@dataclass(frozen=True, slots=True)
class Table:
    """Every result."""

    results: tuple[Result, ...] = field(default=())
    seconds: float = 0.0

    def of(self, *outcomes: Outcome) -> list[Result]:
        """The results with one of these outcomes."""
        return [result for result in self.results if result.outcome in outcomes]

    @property
    def last_line(self) -> str:
        """What it comes to."""
        cases, twins = self.of("detected", "missed"), self.of("clean", "alarm")
        detected, alarms = len(self.of("detected")), len(self.of("alarm"))
        return f"detected {detected}/{len(cases)}, false alarms {alarms}/{len(twins)}"

    @property
    def exit_code(self) -> int:
        """0 only if every case was detected and no twin raised an alarm."""
        return 1 if not self.results or self.of("missed", "alarm") else 0


def run_matrix(
    matrix: Matrix,
    launcher: Launcher,
    validators: Validators,
    on_result: Callable[[Result], None] = lambda result: None,
    jobs: int = 1,
) -> Table:
    """Start every server of the matrix and judge its tests; the results are in its order.

    Args:
        matrix: what to run.
        launcher: starts the servers.
        validators: the probes that judge.
        on_result: called after each test, in the order in which they end.
        jobs: how many servers run at a time.
    """
    began = time.monotonic()
    ended: SimpleQueue[Result | BaseException | None] = SimpleQueue()
    groups = list(matrix.starts().items())

    def run_one(start: Start, tests: list[Trial]) -> list[Result]:
        found = []
        try:
            for result in _run_server(start, tests, launcher, validators):
                ended.put(result)
                found.append(result)
        except BaseException as error:
            ended.put(error)
            raise
        ended.put(None)
        return found

    pool = ThreadPoolExecutor(jobs)
    try:
        futures = [pool.submit(run_one, *group) for group in groups]
        _follow(ended, len(groups), on_result)
    except BaseException:
        # What is waited for in the other threads comes to an end with its server.
        pool.shutdown(wait=False, cancel_futures=True)
        launcher.running.end()
        raise
    finally:
        pool.shutdown()
    results = [result for future in futures for result in future.result()]
    return Table(tuple(results), time.monotonic() - began)


def _follow(
    ended: SimpleQueue[Result | BaseException | None],
    servers: int,
    on_result: Callable[[Result], None],
) -> None:
    """Pass results on until every server has ended; an error of one is raised."""
    while servers:
        # Waiting in this thread keeps it open to signals.
        match ended.get():
            case None:
                servers -= 1
            case BaseException() as error:
                raise error
            case result:
                on_result(result)


def _run_server(
    start: Start, tests: list[Trial], launcher: Launcher, validators: Validators
) -> Iterator[Result]:
    """The results of all tests that one server serves; tests of one view share its evidence."""
    began = time.monotonic()
    with launcher.server(tests[0].name, start) as server:
        seen: dict[View, Evidence] = {}
        for test in tests:
            try:
                if test.view not in seen:
                    seen[test.view] = server.look(test.view)
                found = judge_test(test, seen[test.view], validators)
            except ConfiguratorError as error:
                bad: Outcome = "alarm" if test.healthy else "missed"
                found = Result(test, bad, (f"cannot be judged: {error}",))
            if test is tests[-1]:
                server.stop()
            now = time.monotonic()
            yield _timed(found, now - began)
            began = now


def _timed(result: Result, seconds: float) -> Result:
    return Result(
        result.test, result.outcome, result.faults, result.seen, result.state, seconds
    )  # fmt: skip


def judge_test(test: Trial, evidence: Evidence, validators: Validators) -> Result:
    """Judge evidence of a server as `check` would, and hold it against what must be said."""
    expectations = [expectation_from(text, validators.probes) for text in test.ask]
    judgement = judge(expectations, evidence, validators)
    faults = tuple(_faults(test, judgement))
    good, bad = ("clean", "alarm") if test.healthy else ("detected", "missed")
    state = judgement.states[0]
    interesting = [
        verdict
        for verdict in judgement.verdicts
        if verdict.mechanism in test.expect or verdict.answer == "REFUTED"
    ]
    return Result(
        test,
        bad if faults else good,  # type: ignore[arg-type]
        faults,
        tuple(map(_said, interesting)),
        f"{state.state}: {state.reason}" if state.state != "ready" else state.state,
    )


def _said(verdict: Verdict) -> str:
    rung = f" ({verdict.rung})" if verdict.rung is not None else ""
    return f"{verdict.mechanism} {verdict.answer}{rung}: {verdict.summary}"


def _faults(test: Trial, judgement: Judgement) -> Iterator[str]:
    """Everything that differs from what must be said."""
    state = judgement.states[0]
    if state.state != test.server:
        yield f"the server is {state.state}, not {test.server}: {state.reason}"
    if test.reason and test.reason not in f"{state.phase} {state.reason}":
        yield f"the reason does not say {test.reason!r}: {state.phase} {state.reason}"
    if judgement.crashed:
        yield "a probe crashed"
    by_name = {verdict.mechanism: verdict for verdict in judgement.verdicts}
    for name, expected in test.expect.items():
        yield from _differs(name, expected, by_name.get(name))
    for verdict in _unexpected(test, judgement.verdicts):
        yield f"wrongly refuted: {_said(verdict)}"
    codes = judgement.exit_code
    if test.healthy and codes:
        yield f"exit code {codes} for a healthy server"
    refuted = any(expected.answer == "REFUTED" for expected in test.expect.values())
    if (refuted or test.server != "ready") and not codes:
        yield "exit code 0 all the same"


def _differs(name: str, expected: Expected, verdict: Verdict | None) -> Iterator[str]:
    if verdict is None:
        yield f"{name}: nothing is said of it"
        return
    if verdict.answer != expected.answer:
        yield f"not {expected.answer}: {_said(verdict)}"
    elif expected.rung and (verdict.rung is None or verdict.rung < Rung.of(expected.rung)):
        yield f"below {expected.rung}: {_said(verdict)}"
    if expected.says not in verdict.summary:
        yield f"{name} does not say {expected.says!r}: {verdict.summary}"
    for words in expected.lacks:
        if words in verdict.summary:
            yield f"{name} says {words!r}: {verdict.summary}"


def _unexpected(test: Trial, verdicts: Iterable[Verdict]) -> Iterator[Verdict]:
    for verdict in verdicts:
        known = test.expect.get(verdict.mechanism)
        if verdict.answer == "REFUTED" and (known is None or known.answer != "REFUTED"):
            yield verdict
