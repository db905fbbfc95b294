"""One run of `up`: preflight, launch, self-check, act on the verdicts, serve, stop."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from configurator.content import Library
from configurator.deployment import Deployment
from configurator.errors import ConfiguratorError
from configurator.evidence.read import read_evidence
from configurator.inengine.bundle import write_bundle
from configurator.judge import Judgement
from configurator.loader import Validators
from configurator.render.instrument import instrumented, probe_variables
from configurator.report.json_report import judgement as as_json
from configurator.report.terminal import print_judgement
from configurator.signals import Stop
from configurator.up import dropping
from configurator.up.answering import raise_if_another_answers, raise_if_another_reports
from configurator.up.console import Console, Saying
from configurator.up.engine_python import EnginePython, ask_gpus, ask_python, versions
from configurator.up.faults import end_of, unchecked
from configurator.up.launching import Command, Running, commands_of, start
from configurator.up.lock import RunLock, kill_strays, left_behind, lock_path, stop_left_behind
from configurator.up.page import write_page
from configurator.up.phases import Step
from configurator.up.preflight import Finding, Host, preflight
from configurator.up.report import Report
from configurator.up.required import missing_reports
from configurator.up.stopping import Patience, adopt_orphans, reap, stop_all
from configurator.up.targets import Target, lost_logs, targets_of
from configurator.up.waiting import SILENCE_S, Ended, raise_if_over, wait_ready

KILLED = 130
"""Exit code after a second SIGINT."""
BEFORE_DROP = "before-drop"
"""Folder of the report with what the first attempt left when something was dropped."""


SelfCheck = Callable[[Deployment, Sequence[Target], Path], Judgement]
"""Collects evidence of the servers into a directory and judges it."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a person asked for."""

    deployment: Deployment
    library: Library
    validators: Validators
    report: Path
    host: int = 0
    addresses: Mapping[tuple[int, int], str] = field(default_factory=dict)
    python: str | None = None
    skip: frozenset[str] = frozenset()
    once: bool = False
    patience: Patience = field(default_factory=Patience)
    silence_s: float = SILENCE_S


class Session:
    """Runs a plan once."""

    def __init__(self, plan: Plan, check: SelfCheck, console: Console) -> None:
        self.plan = plan
        self.check = check
        self.console = console
        self.report = Report(plan.report)
        self.deployment = plan.deployment
        self.dropped: tuple[dropping.Dropped, ...] = ()
        self.running: list[Running] = []
        self.checked = "not reached"
        self.stop = Stop()
        self.adopts = False
        self._told: set[str] = set()

    def run(self) -> int:
        """Everything from the lock to the last process; the exit code.

        Raises:
            ConfiguratorError: it runs already, or something given cannot be used.
        """
        path = lock_path(self.deployment.name, self.plan.host)
        with self.stop, RunLock(path) as lock:
            self._clean_up(lock)
            self.report.create(searched=instrumented(self.deployment))
            self.adopts = adopt_orphans()
            ended = Ended(3, "a fault of configurator itself")
            try:
                ended = self._until_end(lock)
            except ConfiguratorError as error:
                ended = Ended(2, str(error))
                raise
            finally:
                self._stop(lock)
                if self.stop.impatient:
                    ended.code = KILLED
                self._finish(ended)
            return ended.code

    def _clean_up(self, lock: RunLock) -> None:
        stale = left_behind(lock.before)
        lock.describe(self.report.directory, stale)
        for group in stale:
            self.console.say(
                f"{group.name} of an earlier start still ran (process group {group.pid}): "
                "stopping it",
                "yellow",
            )
            stop_left_behind(group, self.plan.patience.term_s, lambda: self.stop.impatient)
        if count := kill_strays(lock.before):
            self.console.say(f"killed {count} more process(es) of the earlier start", "yellow")
        lock.clear()

    def _until_end(self, lock: RunLock) -> Ended:
        try:
            judgement = self._attempt(lock)
            if judgement is not None and judgement.exit_code:
                self._leave_out(judgement, lock)
                judgement = self._attempt(lock)
                if judgement is not None and judgement.exit_code:
                    raise Ended(1, "refuted again after the relaunch; it is stopped")
            if self.plan.once and judgement is not None:
                return Ended(0, "the self-check is good; stopped as asked (--once)")
            self._serve()
        except Ended as ended:
            return ended
        except OSError as error:
            end = end_of(error)
            if isinstance(end, Ended):
                return end
            raise
        raise AssertionError("serving ends by Ended")

    def _attempt(self, lock: RunLock) -> Judgement | None:
        """Launch, wait and check; None where no server of this host can be checked.

        Raises:
            Ended: it came to nothing, or what fails is not to be dropped.
        """
        commands = self._prepare()
        engines = [command for command in commands if command.is_engine]
        self._launch(engines, lock)
        self._launch([command for command in commands if not command.is_engine], lock)
        if not any(engine.answers for engine in engines):
            self.console.say("no rank 0 runs here: the host that has it waits and checks")
            self.checked = "on another host"
            return None
        judgement = self._self_check()
        self._act(judgement)
        return judgement

    def _prepare(self) -> tuple[Command, ...]:
        self._say_phase("preflight")
        instrument = self._instrument()
        plan = self.plan
        commands = commands_of(self.deployment, plan.host, plan.addresses, plan.python, instrument)
        self.report.profile(self.deployment, self._note())
        self.report.commands(commands)
        if not self.dropped:
            self._preflight(commands, bool(instrument))
        return commands

    def _note(self) -> str:
        return "\n".join(f"Left out {each.name}: {each.why}" for each in self.dropped)

    def _instrument(self) -> dict[int, dict[str, str]]:
        """Variables of the in-engine probe for every replica; none where it is not wanted."""
        bundle = str(self.report.bundle)
        found = {
            process.replica: probe_variables(
                self.deployment, bundle, str(self.report.reports(process.replica))
            )
            for process in self.deployment.processes
            if process.role == "engine"
        }
        found = {replica: variables for replica, variables in found.items() if variables}
        if found:
            write_bundle(self.report.bundle, self.deployment.plugins)
        return found

    def _preflight(self, commands: tuple[Command, ...], instrumented: bool) -> None:
        gpus = ask_gpus(self.stop)
        engine = next((command for command in commands if command.is_engine), None)
        python = ask_python(engine.argv[0], engine.env, self.stop) if engine else EnginePython()
        entry = self.deployment.engine
        self.report.write_json(
            "versions.json", versions(python, gpus, entry.image, f"{entry.engine} {entry.version}")
        )
        host = Host(self.deployment, commands, python, gpus, self.report.directory, instrumented)
        raise_if_over((), self.stop, "during preflight")
        findings = preflight(host, self.plan.skip)
        for finding in findings:
            self._say_finding(finding)
        self.report.write_json("preflight.json", [
            {"check": f.check, "severity": f.severity, "fact": f.fact, "remedy": f.remedy}
            for f in findings
        ])  # fmt: skip
        if any(finding.severity == "error" for finding in findings):
            raise Ended(1, "nothing was started: preflight found errors (see also --skip)")
        sglang = python.packages.get("sglang")
        found = f"; {f'sglang {sglang}' if sglang else 'no sglang'}, Python {python.version}"
        self.console.say(f"preflight: good{found if python.packages else ''}")

    def _say_finding(self, finding: Finding) -> None:
        colour = "red" if finding.severity == "error" else "yellow"
        text = f"preflight {finding.check}: {finding.severity}: {finding.fact}; {finding.remedy}"
        self.console.say(text, colour)

    def _launch(self, commands: Sequence[Command], lock: RunLock) -> None:
        if not commands:
            return
        self._say_phase("launch")
        started = []
        for command in commands:
            raise_if_over(self.running, self.stop, "during launch")
            on_step = _bound(self.report, command.name)
            each = start(command, self.report.log(command), lock, on_step)
            self.running.append(each)
            started.append(each)
            on_step(each.log.step)
            self.console.say(
                f"{command.name}: started, process group {each.popen.pid}, log {each.log.path}"
            )
        waiting = [each for each in started if each.command.answers]
        took = wait_ready(
            waiting, self.running, self.deployment.profile.startup.timeout_s, self.stop,
            self.console, self.plan.silence_s,
        )  # fmt: skip
        for each in waiting:
            unsure = raise_if_another_answers(each, self.running)
            self.report.phase(each.command.name, Step("ready"))
            what = "somebody answers" if unsure else "ready"
            text = f"{each.command.name}: {what} on {each.command.url} after {took:.0f} s{unsure}"
            self.console.say(text, "yellow" if unsure else "green")

    def _self_check(self) -> Judgement:
        """The judgement, made beside the loop that looks for signals and deaths."""
        self._say_phase("self-check")
        results: list[Judgement | BaseException] = []

        def work() -> None:
            try:
                with contextlib.redirect_stderr(Saying(self.console)):
                    found = self.check(
                        self.deployment, targets_of(self.running, self.report), self.report.evidence
                    )
                results.append(found)
            except BaseException as error:  # handed to the main thread below
                results.append(error)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        while thread.is_alive():
            raise_if_over(self.running, self.stop, "during the self-check")
            thread.join(0.1)
        result = results[0]
        if isinstance(result, BaseException):
            raise unchecked(result)
        for each in [each for each in self.running if each.command.answers]:
            raise_if_another_answers(each, self.running)
            raise_if_another_reports(each, self.running, self.report.evidence, self.deployment)
        name, status = self.deployment.name, self.deployment.profile.status
        self.report.write("verdicts.json", as_json(result, name, status) + "\n")
        self.console.call(lambda: print_judgement(result, name, status))
        plan = self.plan
        if why := write_page(self.report, result, self.deployment, plan.validators, plan.library):
            self.console.say(f"no page: {why}", "yellow")
        return result

    def _act(self, judgement: Judgement) -> None:
        self.checked = "good" if judgement.exit_code == 0 else "not good"
        for verdict in judgement.verdicts:
            if verdict.answer == "REFUTED" and not verdict.fails:
                self.console.say(
                    f"going on although {verdict.mechanism} is refuted (on_refuted: warn)", "yellow"
                )
        if judgement.crashed:
            raise Ended(3, "a probe crashed, so nothing is proven; it is stopped")
        if gone := lost_logs(self.running):
            self.checked = "not good"
            raise Ended(1, f"{gone}, so the evidence is not whole; it is stopped")
        if missing := self._missing_reports():
            self.checked = "not good"
            raise Ended(1, f"{'; '.join(missing)}; it is stopped")
        if judgement.exit_code and dropping.fails_beyond_drops(judgement):
            failing = [verdict.mechanism for verdict in judgement.verdicts if verdict.fails]
            what = ", ".join(failing) or "a server is not ready"
            raise Ended(1, f"the launch is not what the profile asks for: {what}; it is stopped")

    def _missing_reports(self) -> list[str]:
        if not self.deployment.profile.evidence.require_report:
            return []
        replicas = [target.replica for target in targets_of(self.running, self.report)]
        return missing_reports(self.deployment, read_evidence(self.report.evidence), replicas)

    def _leave_out(self, judgement: Judgement, lock: RunLock) -> None:
        """Stop, and make the deployment one without what was refuted."""
        refuted = dropping.refuted_mechanisms(self.deployment, judgement)
        dropped = dropping.with_dependents(self.deployment, refuted)
        if not dropped:
            raise Ended(1, "something is refuted that no optimization of the profile asks for")
        for each in dropped:
            self.console.say(f"dropping {each.name}: {each.why}", "yellow")
        self._stop(lock)
        names = tuple(each.name for each in dropped)
        plan = self.plan
        validation = dropping.without(self.deployment, names, plan.library, plan.validators)
        if validation.deployment is None or validation.exit_code("error"):
            wrong = [f.message for f in validation.findings if f.severity == "error"]
            raise Ended(1, f"without {', '.join(names)} the profile has errors", wrong)
        self.report.set_aside(BEFORE_DROP)
        self.deployment, self.dropped = validation.deployment, dropped
        self.checked = "not reached"
        self.console.say(f"starting again without {', '.join(names)}", "yellow")

    def _serve(self) -> None:
        """Stay until the end.

        Raises:
            Ended: always.
        """
        self._say_phase("serving")
        self._say_dropped()
        urls = [each.command.url for each in self.running if each.command.answers]
        self.console.say(f"serving on {', '.join(urls)}; report in {self.report.directory}")
        while not self.stop.sleep(0.5):
            raise_if_over(self.running, self.stop, "while serving")
            reap(each.popen.pid for each in self.running)
            self._say_unwritten()
        assert self.stop.signal is not None
        raise Ended(0, f"stopped by {self.stop.signal.name}, as asked")

    def _say_dropped(self) -> None:
        for each in self.dropped:
            self.console.say(f"WITHOUT {each.name}: {each.why}", "yellow")

    def _say_phase(self, phase: str) -> None:
        self.report.phase("up", Step(phase))
        self._say_unwritten()

    def _say_unwritten(self) -> None:
        """Say once of every file that it could not be written, and go on."""
        for each in self.running:
            if each.log.error:
                self.report.unwritten.setdefault(f"log/{each.log.path.name}", each.log.error)
        for name, why in list(self.report.unwritten.items()):
            if name not in self._told:
                self._told.add(name)
                self.console.say(f"{name} of the report is not whole: {why}", "yellow")

    def _stop(self, lock: RunLock) -> None:
        """End everything that runs, whatever else may fail."""
        if self.running:
            self.console.say("stopping; interrupt once more to kill at once")
        stop_all(self.running, self.stop, self.plan.patience, self.console.say, adopted=self.adopts)
        self._say_unwritten()
        self.running.clear()
        lock.clear()

    def _finish(self, ended: Ended) -> None:
        self._say_phase("ended")
        if ended.code:
            self.console.lines(ended.lines)
        elif self.plan.once:
            self._say_dropped()
        self.console.say(ended.reason, "red" if ended.code else None)
        self.report.write_json("result.json", {
            "deployment": self.deployment.name,
            "exit_code": ended.code,
            "reason": ended.reason,
            "self_check": self.checked,
            "signal": self.stop.signal.name if self.stop.signal else None,
            "dropped": [{"name": each.name, "why": each.why} for each in self.dropped],
            "elapsed_s": round(self.report.elapsed, 1),
        })  # fmt: skip
        self._say_unwritten()


def _bound(report: Report, name: str) -> Callable[[Step], None]:
    return lambda step: report.phase(name, step)
