"""Units: systemd reads from them what every target starts, and what they are to do is in them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import stand_in
from render.deployments import address, every, shipped
from render.generated import started
from render.units import SYSTEMD, Unit, by_rules, by_systemd, settings, started_words
from stand_in import LIBRARY, free_port
from tools import need

from configurator.deployment import Deployment, HostPlaceholder
from configurator.errors import ConfiguratorError
from configurator.render import TARGETS, write
from configurator.render.files import RenderedFile
from configurator.render.launches import Folders, launches, secrets_of
from configurator.render.systemd import unit_name
from configurator.render.unitwords import command_word, setting_path, setting_word
from configurator.resolve import resolve
from configurator.schema.profile import SecretRef


def units_of(deployment: Deployment) -> dict[str, str]:
    """Text by name of every service of a process, whatever its host."""
    wanted = {unit_name(deployment, launch) for launch in launches(deployment, Folders("", ""))}
    found = {
        file.path.rpartition("/")[2]: file.text for file in TARGETS["systemd"](deployment)
    }  # fmt: skip
    return {name: text for name, text in found.items() if name in wanted}


def assert_starts(deployment: Deployment, units: dict[str, Unit]) -> None:
    """The engine's words and variables are those of every target; entry.sh puts keys in."""
    home, state = f"/opt/configurator/{deployment.name}", f"/var/lib/configurator/{deployment.name}"
    places = {(s.reference.file, s.reference.env): s.name for s in secrets_of(deployment)}
    for launch in launches(deployment, Folders(f"{home}/probe", f"{state}/reports")):
        unit = units[unit_name(deployment, launch)]
        given = {"CREDENTIALS_DIRECTORY": "/run/c"}
        if deployment.hosts == 1:
            known = started(launch, lambda word: "127.0.0.1", _key)
        else:
            known = started(launch, address, _key)
            given |= {
                f"REPLICA{w.replica}_HOST{w.host}_ADDR": address(w)
                for w in launch.argv
                if isinstance(w, HostPlaceholder)
            }
        (raw,) = unit.commands["ExecStart"]
        words = started_words(raw, given)
        keys: dict[int, str] = {}
        if words[0] == "/usr/bin/env":
            for one in words[1].removeprefix("CONFIGURATOR_KEYS=").split(" "):
                place, _, source = one.partition("=file:/run/c/")
                keys[int(place)] = source
            words = words[2:]
        assert words[:2] == ["/bin/bash", f"{home}/entry.sh"]
        argv = words[2:]
        for number, name in keys.items():
            reference = launch.argv[number]
            assert isinstance(reference, SecretRef)
            assert places[reference.file, reference.env] == name
            argv[number] = _key(reference)
        assert argv == known.argv
        own = {"CONFIGURATOR_LOG", "CONFIGURATOR_STATE"}
        assert {k: v for k, v in unit.env.items() if k not in own} == dict(launch.declared)


def _key(reference: SecretRef) -> str:
    return f"key of {reference.file} {reference.env}"


def test_the_documented_rules_give_back_every_word(tmp_path: Path) -> None:
    for deployment in every(tmp_path):
        units = {name: by_rules(text) for name, text in units_of(deployment).items()}
        assert_starts(deployment, units)


def test_systemd_itself_reads_the_same(tmp_path: Path) -> None:
    need(SYSTEMD)
    need("setpriv")
    made = every(tmp_path)
    units = {name: text for one in made for name, text in units_of(one).items()}
    found = by_systemd(units)
    assert found.keys() == units.keys()
    for deployment in made:
        assert_starts(deployment, found)


def test_systemd_verifies_every_unit(tmp_path: Path) -> None:
    """One call for every host: targets of a deployment have the same name on all of them."""
    need("systemd-analyze")
    folders: dict[str, dict[str, str]] = {}
    for deployment in every(tmp_path):
        for file in TARGETS["systemd"](deployment):
            folder, _, name = file.path.rpartition("/")
            if name.endswith((".service", ".target")):
                units = folders.setdefault(folder or "host0", {})
                assert units.setdefault(name, file.text) == file.text
    assert list(folders) == ["host0", "host1", "host2", "host3"]
    for folder, units in folders.items():
        verified(tmp_path / f"units-{folder}", units)


def verified(folder: Path, units: dict[str, str]) -> None:
    """systemd has nothing to say of these units, which are all that there are."""
    folder.mkdir()
    for name, text in units.items():
        (folder / name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *sorted(folder.iterdir())], capture_output=True,
        text=True, check=False, env={**os.environ, "SYSTEMD_UNIT_PATH": f"{folder}:"}, timeout=200,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_what_systemd_refuses_is_a_failure(tmp_path: Path) -> None:
    need("systemd-analyze")
    good = {"good.service": "[Service]\nExecStart=/bin/true\n"}
    verified(tmp_path / "good", good)
    with pytest.raises(AssertionError, match="NoSuchKey"):
        verified(tmp_path / "bad", good | {"bad.service": good["good.service"] + "NoSuchKey=1\n"})


def file_of(name: str, end: str) -> RenderedFile:
    return next(file for file in TARGETS["systemd"](shipped(name)) if file.path.endswith(end))


def test_a_start_is_a_proof_and_a_refutation_does_not_loop() -> None:
    unit = dict(settings(file_of("ling-3.0-flash-spark", "replica0-host0.service").text))
    assert unit["Type"] == "exec"
    assert unit["ExecStartPost"].endswith("/replica0-host0.sh check")
    # 2400 s to load and compile, and a proof.
    assert int(unit["TimeoutStartSec"]) == 3000
    assert unit["Restart"] == "on-abnormal"
    starts = int(unit["StartLimitBurst"])
    assert int(unit["StartLimitIntervalSec"]) > starts * int(unit["TimeoutStartSec"])
    assert unit["LimitMEMLOCK"] == "infinity"
    ranks = dict(settings(file_of("muse-spark-open-gb300x8-tp8", "host1.service").text))
    assert ranks["Restart"] == "no"


def test_hosts_have_folders_of_their_own_and_addresses_are_never_guessed() -> None:
    files = {file.path: file for file in TARGETS["systemd"](shipped("muse-spark-open-gb300x8-tp8"))}
    assert {path.split("/")[0] for path in files} == {"host0", "host1"}
    unit = files["host1/sglang-muse-spark-open-gb300x8-tp8-replica0-host1.service"].text
    assert "${REPLICA0_HOST0_ADDR}:20000" in unit
    required = [value for key, value in settings(unit) if key == "EnvironmentFile"]
    assert required[-1] == "/etc/configurator/muse-spark-open-gb300x8-tp8/addresses.env"
    alone = file_of("ling-3.0-flash-spark", "replica0-host0.service").text
    assert "addresses.env" not in alone


def test_the_router_waits_for_what_is_proven_on_its_host() -> None:
    unit = settings(file_of("muse-spark-open-gb300x8", "router.service").text)
    engine = "sglang-muse-spark-open-gb300x8-replica0-host0.service"
    assert ("Requires", engine) in unit
    assert ("After", engine) in unit


def test_memory_of_cpu_and_gpu_in_one_is_guarded(tmp_path: Path) -> None:
    unit = settings(file_of("ling-3.0-flash-spark", "replica0-host0.service").text)
    assert ("OOMPolicy", "kill") in unit
    assert ("MemorySwapMax", "0") in unit
    assert "MemoryMax" not in dict(unit)  # would not bound the driver
    assert ("Wants", "sglang-ling-3.0-flash-spark-reserve.service") in unit
    assert not any(
        "reserve" in file.path for file in TARGETS["systemd"](shipped("muse-spark-open-gb300x8"))
    )


@pytest.mark.parametrize(("available_mib", "killed"), [(5000, False), (3000, True)])
def test_the_reserve_ends_engines_before_memory_is_out(
    tmp_path: Path, available_mib: int, killed: bool
) -> None:
    script = tmp_path / "reserve.sh"
    script.write_text(file_of("ling-3.0-flash-spark", "reserve.sh").text)
    (tmp_path / "meminfo").write_text(
        f"MemTotal: 9 kB\nMemAvailable:    {available_mib * 1024} kB\n"
    )
    systemctl = tmp_path / "systemctl"
    systemctl.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/called\n')
    systemctl.chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "CONFIGURATOR_MEMINFO": str(tmp_path / "meminfo")}
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run(["bash", str(script), "a.service"], env=env, timeout=2, check=False)
    called = tmp_path / "called"
    assert called.exists() is killed
    if killed:
        assert called.read_text() == "kill --signal=KILL -- a.service\n"


@pytest.mark.parametrize("value", ["a\0b", "half \ud800"])
def test_what_a_unit_cannot_carry_is_refused(value: str) -> None:
    for word in (command_word, setting_word, setting_path):
        with pytest.raises(ConfiguratorError, match="RND006"):
            word(value)
    for path in ("/a\nb", "/a ", "/a\\"):
        with pytest.raises(ConfiguratorError, match="RND006"):
            setting_path(path)


class Unitd:
    """What systemd does with a unit, in three steps: before, start, after."""

    def __init__(self, folder: Path, extra: str, **more: str) -> None:
        self.folder = folder
        self.port = free_port()
        text = (
            "apiVersion: configurator/v1\nkind: Deployment\nname: stub\nengine: {version: 0.5.23}\n"
            "hardware: {name: cpu, gpus: 1}\nmodel: {name: qwen3-8b}\n"
            f"serving: {{port: {self.port}, api_key: {{env: THE_KEY}}}}\n"
            "evidence: {instrument: none}\n" + extra
        )
        (folder / "p.yaml").write_text(text)
        self.deployment = resolve(*LIBRARY.profile(str(folder / "p.yaml")), LIBRARY)
        out = folder / "out"
        # The fixed places of a host, below the test's own folder.
        moved = [
            RenderedFile(
                file.path,
                file.text.replace("/opt/configurator/stub", str(out)).replace(
                    "/var/lib/configurator/stub", str(folder / "state")
                ),
                file.executable,
                mark=file.mark,
            )
            for file in TARGETS["systemd"](self.deployment)
        ]
        write(moved, out)
        unit = next(file.text for file in moved if file.path.endswith("host0.service"))
        self.unit = by_rules(unit)
        (folder / "credentials").mkdir()
        (folder / "credentials" / "secret-1").write_text("swordfish\n")
        self.env = {
            **stand_in.environment(folder, **more),
            **self.unit.env,
            "CREDENTIALS_DIRECTORY": str(folder / "credentials"),
        }

    def words(self, kind: str) -> list[str]:
        return started_words(self.unit.commands[kind][-1], self.env)

    def run(self, kind: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.words(kind), env=self.env | more, capture_output=True, text=True, timeout=60,
            check=False,
        )  # fmt: skip


@pytest.mark.parametrize("code", [0, 1])
def test_the_three_commands_of_a_unit(tmp_path: Path, code: int) -> None:
    """Preflight, the engine with its key in place, and the proof that decides over the start."""
    hostile = json.dumps('$(touch pwned) %n ${HOME} \\ "it\'s"\n')
    one = Unitd(
        tmp_path,
        f"extra: {{args: {{words: [{hostile}]}}, env: {{V: {hostile}, PATHS: x}}}}\n",
        STUB_CHECK=str(code),
    )
    before = one.run("ExecStartPre")
    assert before.returncode == 0, before.stdout + before.stderr
    assert f"preflight port: {one.port} is free" in before.stdout
    engine = subprocess.Popen(one.words("ExecStart"), env=one.env, stdout=subprocess.DEVNULL)
    try:
        after = one.run("ExecStartPost", MAINPID=str(engine.pid))
    finally:
        engine.terminate()
        engine.wait(30)
    assert after.returncode == code, after.stdout + after.stderr
    seen = stand_in.seen(tmp_path)
    argv, env = seen["argv"], seen["env"]
    assert isinstance(argv, list)
    assert isinstance(env, dict)
    assert argv[argv.index("--api-key") + 1] == "swordfish"
    assert argv[argv.index("--words") + 1] == json.loads(hostile)
    assert env["V"] == json.loads(hostile)
    assert not {name for name in env if name.startswith("CONFIGURATOR_")}
    checked = json.loads((tmp_path / "checked.json").read_text())
    assert checked[checked.index("--api-key-env") + 1] == "CONFIGURATOR_API_KEY"
    assert checked[checked.index("--pid") + 1] == f"0={engine.pid}"
    log = (tmp_path / "state" / "log" / "replica0-host0.log").read_text()
    assert "swordfish" not in log + after.stdout + after.stderr


def test_an_engine_that_dies_fails_the_start(tmp_path: Path) -> None:
    one = Unitd(tmp_path, "", STUB_MODE="die")
    engine = subprocess.Popen(one.words("ExecStart"), env=one.env, stdout=subprocess.DEVNULL)
    engine.wait(30)
    after = one.run("ExecStartPost", MAINPID=str(engine.pid))
    assert after.returncode == 1
    assert "the engine died before it was ready" in after.stderr
    assert "RuntimeError: out of memory" in after.stderr


def test_a_missing_key_fails_before_the_start(tmp_path: Path) -> None:
    one = Unitd(tmp_path, "")
    (tmp_path / "credentials" / "secret-1").write_text("")
    before = one.run("ExecStartPre")
    assert before.returncode == 1
    assert "is empty; it must hold the key; see LoadCredential= in the unit" in before.stderr


def test_an_address_that_nobody_wrote_does_not_start_a_unit() -> None:
    """The router has no script of its own, and would start with `http://:30000`."""
    unit = by_rules(file_of("muse-spark-open-gb300x8", "router.service").text)
    told = ["REPLICA0_HOST0_ADDR", "REPLICA1_HOST0_ADDR"]
    before = unit.commands["ExecStartPre"]
    assert len(before) == len(told)
    for words, name in zip(before, told, strict=True):
        command = started_words(words, {})
        for value, code in (("10.0.0.1", 0), ("", 2)):
            done = subprocess.run(
                command, env={name: value}, capture_output=True, text=True, check=False
            )
            assert (done.returncode == 0) is (code == 0), done.stderr
            assert value or f"{name}: is empty. Write the address of host 0" in done.stderr


def start_of(name: str) -> str:
    return next(f.text for f in TARGETS["systemd"](shipped(name)) if f.path.endswith("START.md"))


def test_a_key_is_read_by_a_line_that_may_be_pasted(tmp_path: Path) -> None:
    """In a block of its own: what follows in a pasted block would become the key."""
    blocks = start_of("muse-spark-open-gb300x8-tp8").split("```bash\n")[1:]
    (block,) = [block.split("```")[0] for block in blocks if "credstore" in block]
    assert len(block.splitlines()) == 1
    moved = block.replace("/etc/credstore", f"{tmp_path}/credstore")
    subprocess.run(["bash", "-c", moved], input="sword fish\\\nls\n", text=True, check=True)
    (key,) = (tmp_path / "credstore").iterdir()
    assert (key.read_text(), key.stat().st_mode & 0o777) == ("sword fish\\", 0o600)


def test_what_the_host_alone_knows_stays_when_the_commands_are_repeated(tmp_path: Path) -> None:
    blocks = start_of("muse-spark-open-gb300x8").split("```bash\n")[1:]
    files = [block.split("```")[0] for block in blocks if block.startswith("[ -e ")]
    assert len(files) == 2
    place = "/etc/configurator/muse-spark-open-gb300x8"
    for block in files:
        moved = block.replace(place, str(tmp_path))
        subprocess.run(["bash", "-c", moved], check=True)
        (written,) = [p for p in tmp_path.iterdir() if p.read_text() != "mine\n"]
        assert "ADDR=\n" in written.read_text() or "PATH=/" in written.read_text()
        written.write_text("mine\n")
        subprocess.run(["bash", "-c", moved], check=True)
        assert written.read_text() == "mine\n"
