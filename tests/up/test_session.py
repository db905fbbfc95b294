"""Whole starts: what is proven, refuted, left out; what is written; what is refused."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from stand_in import free_port
from up.starts import Start, wait_until

from configurator.errors import ConfiguratorError
from configurator.up.faults import unchecked
from configurator.up.waiting import Ended

KEY = "correct-horse-battery-staple"
SPECULATION = """\
optimizations:
  nextn-mtp: {on_refuted: POLICY, draft: {same_checkpoint: true}, steps: 3, topk: 1, \
draft_tokens: 4}
  lm-head-shared: {on_refuted: POLICY}
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    made = Start(tmp_path)
    yield made
    made.clean()


def verdicts(start: Start, where: str = "verdicts.json") -> dict[str, str]:
    return {v["mechanism"]: v["verdict"] for v in start.json(where)["verdicts"]}


def test_a_healthy_start_proves_and_leaves_a_whole_report(start: Start) -> None:
    start.write(SPECULATION.replace("POLICY", "fail"))
    code, output = start.run("healthy", "--once")
    assert code == 0, output
    assert "PROVEN         nextn-mtp" in output
    assert set(verdicts(start).values()) == {"PROVEN"}
    assert verdicts(start)["lm-head-shared"] == "PROVEN"
    report = start.folder / "report"
    assert {path.name for path in report.iterdir()} == {
        "profile.yaml", "commands.json", "versions.json", "preflight.json", "probe-bundle",
        "log", "evidence", "evidence-reports", "verdicts.json", "timeline.json", "result.json",
        "report.html",
    }  # fmt: skip
    assert "nextn-mtp" in (report / "report.html").read_text()
    log = report / "log" / "replica0-host0.log"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert "Load weight begin" in log.read_text()
    assert start.json("versions.json")["engine"] == {"wanted": "sglang 0.5.23", "found": "0.5.23"}
    assert start.json("result.json")["self_check"] == "good"
    phases = [(e["process"], e["phase"]) for e in start.json("timeline.json")]
    up = [phase for process, phase in phases if process == "up"]
    assert up == ["preflight", "launch", "self-check", "ended"]
    engine = [phase for process, phase in phases if process == "replica0-host0"]
    assert engine[:3] == ["importing", "loading weights", "capturing graphs"]
    assert engine[-1] == "ready"
    assert list((report / "evidence" / "replica-0" / "reports").glob("*.json"))


def test_the_engine_gets_what_the_deployment_says_and_the_probe(start: Start) -> None:
    start.write("extra: {env: {SGLANG_USE_CPU_ENGINE: 1}}")
    start.env["PYTHONPATH"] = "/somewhere"
    assert start.run("healthy", "--once")[0] == 0
    seen = start.seen()
    assert seen["argv"][:2] == ["-m", "sglang.launch_server"]
    assert seen["argv"][seen["argv"].index("--port") + 1] == str(start.port)
    assert "--enable-metrics" in seen["argv"]
    report = start.folder / "report"
    assert seen["env"]["PYTHONPATH"] == f"{report}/probe-bundle:/somewhere"
    assert seen["env"]["CONFIGURATOR_PROBE_DIR"] == f"{report}/evidence-reports/replica-0"
    assert "CONFIGURATOR_PROBE_REQUIRED" not in seen["env"]
    assert seen["env"]["SGLANG_USE_CPU_ENGINE"] == "1"
    commands = start.json("commands.json")
    assert commands[0]["argv"][1:] == seen["argv"]
    assert commands[0]["env"]["SGLANG_USE_CPU_ENGINE"] == "1"


@pytest.mark.parametrize(
    ("evidence", "required", "instrumented"),
    [("{require_report: true}", "1", True), ("{instrument: none}", None, False)],
)
def test_a_required_report_fails_closed_and_none_adds_nothing(
    tmp_path: Path, evidence: str, required: str | None, instrumented: bool
) -> None:
    start = Start(tmp_path, extra=f"evidence: {evidence}")
    try:
        start.run("dies")
        env = start.seen()["env"]
        assert env.get("CONFIGURATOR_PROBE_REQUIRED") == required
        assert ("CONFIGURATOR_PROBE_DIR" in env) == instrumented
        assert ("PYTHONPATH" in env) == instrumented
    finally:
        start.clean()


def test_replicas_and_a_router_of_one_host(start: Start) -> None:
    router = free_port()
    start.write(
        "hardware: {name: cpu, gpus: 2, overrides: {gpus_per_host: 2}}\n"
        f"topology: {{replicas: 2}}\nrouter: {{port: {router}}}"
    )
    process = start.up("healthy,family")
    start.wait_phase("serving")
    words = [start.seen(number)["argv"] for number in range(3)]
    ports = [argv[argv.index("--port") + 1] for argv in words if "sglang.launch_server" in argv]
    assert sorted(ports) == [str(start.port), str(start.port + 1)]
    assert f"http://127.0.0.1:{start.port + 1}" in words[2]
    assert len(start.alive(frozenset({process.pid}))) == 9
    process.terminate()
    output, _ = process.communicate(timeout=20)
    assert process.returncode == 0, output
    assert f"router: ready on http://127.0.0.1:{router}" in output
    assert start.alive() == []
    replicas = start.json("verdicts.json")["server"]["replicas"]
    assert [(each["replica"], each["state"]) for each in replicas] == [(0, "ready"), (1, "ready")]
    logs = {path.name for path in (start.folder / "report" / "log").iterdir()}
    assert logs == {"replica0-host0.log", "replica1-host0.log", "router.log"}


def test_a_refuted_mechanism_stops_it(start: Start) -> None:
    start.write(SPECULATION.replace("POLICY", "fail"))
    code, output = start.run("sabotaged")
    assert code == 1
    assert "not what the profile asks for: nextn-mtp, lm-head-shared; it is stopped" in output
    assert start.alive() == []
    assert start.json("result.json")["self_check"] == "not good"
    assert verdicts(start)["nextn-mtp"] == "REFUTED"


def test_a_warning_goes_on(start: Start) -> None:
    start.write(SPECULATION.replace("POLICY", "warn"))
    code, output = start.run("sabotaged", "--once")
    assert code == 0, output
    assert "going on although nextn-mtp is refuted (on_refuted: warn)" in output
    assert verdicts(start)["nextn-mtp"] == "REFUTED"


def test_a_drop_starts_again_without_it_and_says_so(start: Start) -> None:
    start.write(SPECULATION.replace("POLICY", "drop"))
    code, output = start.run("sabotaged", "--once")
    assert code == 0, output
    assert "dropping nextn-mtp: nextn-mtp is refuted: acceptance length 1.01" in output
    assert "starting again without nextn-mtp, lm-head-shared" in output
    assert "WITHOUT nextn-mtp" in output
    assert "--speculative-algorithm" in start.seen(0)["argv"]
    assert "--speculative-algorithm" not in start.seen(1)["argv"]
    assert verdicts(start, "before-drop/verdicts.json")["nextn-mtp"] == "REFUTED"
    assert "nextn-mtp" not in verdicts(start)
    dropped = start.json("result.json")["dropped"]
    assert [each["name"] for each in dropped] == ["nextn-mtp", "lm-head-shared"]
    merged = (start.folder / "report" / "profile.yaml").read_text()
    assert "# Left out nextn-mtp:" in merged
    assert "nextn-mtp:" not in merged.split("Left out lm-head-shared")[1].split("\n", 1)[1]
    assert start.alive() == []


def test_a_failure_beside_a_drop_is_a_failure(start: Start) -> None:
    start.write(SPECULATION.replace("POLICY", "drop", 1).replace("POLICY", "fail"))
    code, output = start.run("sabotaged", "--once")
    assert code == 1
    assert "starting again" not in output
    assert not (start.folder / "seen-1.json").exists()


def test_secrets_are_nowhere_but_with_the_engine(start: Start) -> None:
    secret = start.folder.parent / f"{start.folder.name}.key"
    secret.write_text(f"{KEY}\n")
    start.env["HF_TOKEN"] = "hf_" + "a1" * 17
    start.env["MY_SECRET"] = KEY[::-1]
    start.write(f"SERVING: api_key: {{file: {secret}}}")
    code, output = start.run("healthy", "--once")
    assert code == 0, output
    seen = start.folder / "seen-0.json"
    assert json.loads(seen.read_text())["argv"].count(KEY) == 1
    seen.unlink()
    start.profile.unlink()
    for path in start.folder.rglob("*"):
        if path.is_file():
            text = path.read_text(errors="replace")
            assert KEY not in text, path
            assert KEY[::-1] not in text, path
            assert start.env["HF_TOKEN"] not in text, path
    assert KEY not in output
    log = (start.folder / "report" / "log" / "replica0-host0.log").read_text()
    assert "server_args=ServerArgs(api_key='<redacted>')" in log


def test_a_secret_that_is_missing_is_unusable_input(start: Start) -> None:
    start.write("SERVING: api_key: {env: NO_SUCH_KEY}")
    code, output = start.run("healthy")
    assert code == 2
    assert "RUN003 the secret in variable NO_SUCH_KEY cannot be used: it is not set" in output


def test_an_engine_that_dies_while_loading(start: Start) -> None:
    code, output = start.run("dies,family")
    assert code == 1
    assert "replica0-host0 ended with exit code 7 before it was ready" in output
    assert "torch.OutOfMemoryError: CUDA out of memory. Tried 2 GiB" in output
    assert "lower memory.mem_fraction_static" in output
    assert start.alive() == []


def test_an_engine_that_hangs_runs_into_the_time_out(tmp_path: Path) -> None:
    start = Start(tmp_path, extra="startup: {timeout_s: 3}", silence_s=1.0)
    try:
        code, output = start.run("hangs,family")
        assert code == 1
        assert "is not ready after 3 s (startup.timeout_s); it was at: capturing graphs" in output
        assert "no new line for 1 s in the phase capturing graphs" in output
        assert "the process is alive, CPU" in output
        assert start.alive() == []
    finally:
        start.clean()


def test_an_engine_that_ends_while_serving(start: Start) -> None:
    process = start.up("ends,family")
    start.wait_phase("serving")
    os.kill(start.seen()["pid"], signal.SIGUSR1)
    output, _ = process.communicate(timeout=15)
    assert process.returncode == 1
    assert "replica0-host0 ended with exit code 5 while serving" in output
    assert start.alive() == []


def test_a_port_that_is_taken_is_found_before_anything_starts(start: Start) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", start.port))
        held.listen()
        code, output = start.run("healthy")
    assert code == 1
    assert f"127.0.0.1:{start.port} (replica0-host0) is taken, held by process" in output
    assert f"{os.getpid()} (" in output
    assert "nothing was started" in output
    assert not (start.folder / "seen-0.json").exists()


def test_a_python_without_the_engine_is_found_and_can_be_skipped(start: Start) -> None:
    code, output = start.run("no-sglang", "--once")
    assert code == 1
    assert "preflight engine: error: sglang is not installed for" in output
    process = start.up("no-sglang,hangs", "--skip", "engine", report="again")
    start.wait_phase("capturing graphs", "replica0-host0", "again")
    process.kill()
    output, _ = process.communicate(timeout=60)
    assert "preflight: good; no sglang, Python" in output


def test_two_starts_do_not_fight(start: Start) -> None:
    first = start.up("healthy")
    start.wait_phase("serving")
    code, output = start.run("healthy", report="second")
    assert code == 2
    assert f"RUN001 it runs already: process {first.pid}, since 20" in output
    assert f"report in {start.folder}/report" in output
    assert not (start.folder / "second").exists()
    assert first.poll() is None
    first.terminate()
    assert first.wait(15) == 0
    wait_until(lambda: start.alive() == [], "the end of all")


def test_two_starts_from_other_environments_do_not_fight_either(start: Start) -> None:
    """A login has a runtime directory and a service has none."""
    start.env["XDG_RUNTIME_DIR"] = str(start.folder / "run")
    first = start.up("hangs")
    start.wait_phase("capturing graphs", "replica0-host0")
    start.env |= {"XDG_RUNTIME_DIR": str(start.folder), "HOME": "/nonexistent", "TMPDIR": "/x"}
    code, output = start.run("healthy", report="second")
    assert code == 2
    assert f"RUN001 it runs already: process {first.pid}, since 20" in output
    first.kill()
    first.wait()
    code, output = start.run("healthy", "--once", report="third")
    assert code == 0, output
    assert "replica0-host0 of an earlier start still ran" in output
    assert start.alive() == []


def test_a_report_directory_is_used_once(start: Start) -> None:
    (start.folder / "report").mkdir()
    (start.folder / "report" / "mine").touch()
    code, output = start.run("healthy")
    assert code == 2
    assert "RUN005" in output
    assert "is not empty" in output
    assert not (start.folder / "report" / "result.json").exists()


def test_a_profile_with_errors_starts_nothing(start: Start) -> None:
    start.write("extra: {args: {no-such-argument: 1}}")
    code, output = start.run("healthy")
    assert code == 1
    assert "nothing started" in output
    assert not (start.folder / "report").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--host", "1"), "the hosts of tiny are 0 to 0"),
        (("--skip", "prot"), "did you mean 'port'"),
        (("--address", "0=1.2.3.4"), "write it like 0.1=10.0.0.2"),
    ],
)
def test_wrong_usage(start: Start, options: tuple[str, ...], said: str) -> None:
    code, output = start.run("healthy", *options)
    assert code == 2
    assert said in " ".join(output.split())


REQUIRED = "evidence: {require_report: true}\n"


@pytest.mark.parametrize(
    ("mode", "why"),
    [("no-report", "no in-engine report of rank 0: the plugin gave no sign"), ("healthy", "")],
)
def test_a_required_report_that_is_missing_stops_it(start: Start, mode: str, why: str) -> None:
    start.write(REQUIRED)
    code, output = start.run(mode, "--once", "--skip", "plugins")
    assert code == (1 if why else 0), output
    assert why in output
    assert ("no in-engine report" in output) == bool(why)
    assert start.json("result.json")["self_check"] == ("not good" if why else "good")
    assert start.alive() == []


def test_an_answer_that_is_nested_too_deeply_is_said(start: Start) -> None:
    code, output = start.run("deep", "--once")
    assert code in (0, 1), output
    assert "a fault of configurator" not in output
    assert start.json("result.json")["exit_code"] == code
    assert start.alive() == []


def test_a_report_directory_that_pythonpath_cannot_name(start: Start) -> None:
    code, output = start.run("healthy", report="a:b")
    assert code == 2
    assert "RUN005" in output
    assert "a:b has ':' in its name, where PYTHONPATH ends" in output
    assert not (start.folder / "seen-0.json").exists()


def test_closed_streams_are_no_fault(start: Start) -> None:
    start.wrapper = ["/bin/sh", "-c", 'exec "$@" >&- 2>&- <&-', "sh"]
    code, output = start.run("healthy", "--once")
    assert (code, output) == (0, "")
    assert start.json("result.json")["self_check"] == "good"


def test_words_of_the_engine_do_not_reach_the_terminal_raw(start: Start) -> None:
    code, output = start.run("evil,dies")
    assert code == 1
    assert "boom" in output
    assert "\x1b]0;" not in output
    assert "\x9b" not in output


def test_a_key_of_two_lines_starts_nothing(start: Start) -> None:
    key = start.folder / "key"
    key.write_text("correct-horse-1\ncorrect-horse-2\n")
    start.write(f"SERVING: api_key: {{file: {key}}}")
    code, output = start.run("healthy", "--once")
    assert code == 2
    assert "RUN003" in output
    assert "it has 2 lines" in output
    assert not (start.folder / "seen-0.json").exists()


@pytest.mark.parametrize("mode", ["loses-log", "loses-logs", "loses-report"])
def test_a_log_that_vanishes_is_said(start: Start, mode: str) -> None:
    code, output = start.run(f"healthy,{mode}", "--once")
    assert code == 1, output
    log = start.folder / "report/log/replica0-host0.log"
    assert f"the log {log} is gone, so the evidence is not whole; it is stopped" in output
    assert "COL001" not in output
    assert "a fault of configurator" not in output
    manifest = start.json("evidence/manifest.json")
    assert "server.log" not in manifest["replicas"][0]["files"]
    assert start.json("result.json")["self_check"] == "not good"
    assert start.alive() == []


def test_reports_that_vanish_are_no_fault_where_none_is_required(start: Start) -> None:
    code, output = start.run("healthy,loses-reports", "--once")
    assert code == 0, output


def test_what_vanishes_while_it_is_collected_is_no_unusable_input() -> None:
    lost = ConfiguratorError.single("COL001", "log /x is not a file")
    end = unchecked(lost)
    assert isinstance(end, Ended)
    assert end.code == 1
    assert "the self-check could not be made: log /x is not a file" in end.reason
    for other in (ConfiguratorError.single("COL002", "the key"), ValueError("x")):
        assert unchecked(other) is other
