"""Two hosts as network namespaces: the scripts of bash meet over a network, rank 0 judges both."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from render import ranks
from stand_in import as_from_a_terminal, free_port, wait_until_gone
from tools import need, need_root

from configurator.render import TARGETS, write

ADDRESSES = ("10.203.7.1", "10.203.7.2")


@pytest.fixture(scope="module")
def hosts() -> Iterator[tuple[str, str]]:
    """Two namespaces with a cable between them, and nothing else."""
    need("ip")
    need_root("network namespaces")
    names = (f"cfg{os.getpid()}a", f"cfg{os.getpid()}b")
    with contextlib.ExitStack() as made:
        for name in names:
            _ip("netns", "add", name)
            made.callback(_ip, "netns", "del", name)
        _ip("link", "add", "cable", "netns", names[0], "type", "veth",
            "peer", "name", "cable", "netns", names[1])  # fmt: skip
        for name, address in zip(names, ADDRESSES, strict=True):
            _ip("-n", name, "addr", "add", f"{address}/24", "dev", "cable")
            _ip("-n", name, "link", "set", "cable", "up")
            _ip("-n", name, "link", "set", "lo", "up")
        yield names


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, timeout=20)


class Started:
    """Both ranks, each on its host, with one folder for the reports."""

    def __init__(self, hosts: tuple[str, str], folder: Path, **more: str) -> None:
        self.folder = folder
        write(TARGETS["bash"](ranks.deployed(folder, ranks.profile(free_port()))), folder / "out")
        env = ranks.environment(
            folder, REPLICA0_HOST0_ADDR=ADDRESSES[0], REPORTS_DIR=str(folder / "shared"), **more
        )
        self.processes = [self._start(host, rank, env) for rank, host in enumerate(hosts)]

    def _start(self, host: str, rank: int, env: dict[str, str]) -> subprocess.Popen[bytes]:
        script = self.folder / "out" / f"replica0-host{rank}.sh"
        with (self.folder / f"output-{rank}").open("wb") as output:
            return subprocess.Popen(
                ["ip", "netns", "exec", host, "bash", str(script)], env=env, stdout=output,
                stderr=subprocess.STDOUT, preexec_fn=as_from_a_terminal,
            )  # fmt: skip

    def wait(self, text: str) -> str:
        """What rank 0 said, once it has said this or has ended."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            ended = self.processes[0].poll() is not None
            printed = " ".join((self.folder / "output-0").read_text().split())
            if text in printed or ended:
                return printed
            time.sleep(0.1)
        return printed

    def stop(self) -> list[int]:
        """The exit codes."""
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        return [process.wait(40) for process in self.processes]


@contextlib.contextmanager
def started(hosts: tuple[str, str], folder: Path, **more: str) -> Iterator[Started]:
    one = Started(hosts, folder, **more)
    try:
        yield one
    finally:
        one.stop()
        assert all(wait_until_gone(seen["pid"]) for seen in ranks.seen(folder).values())


def test_ranks_meet_over_the_network_and_both_are_judged(
    hosts: tuple[str, str], tmp_path: Path
) -> None:
    with started(hosts, tmp_path) as both:
        printed = both.wait("serving on")
        assert "self-check: good" in printed, printed
        assert "report-tp1-pp0-dp0.json" in printed
        log = (tmp_path / "out" / "log" / "replica0-host0.log").read_text()
        assert f"rank 1 came from {ADDRESSES[1]}" in log
        argv = [one["argv"] for one in ranks.seen(tmp_path).values()]
        assert [words[words.index("--node-rank") + 1] for words in argv] == ["0", "1"]
        assert {words[words.index("--dist-init-addr") + 1] for words in argv} == {
            f"{ADDRESSES[0]}:20000"
        }
        assert both.stop() == [143, 143]


@pytest.mark.parametrize(
    ("how", "verdict", "said"),
    [
        ({"STUB_BAD": "1"}, "REFUTED", "rank 1"),
        ({"STUB_SILENT": "1"}, "INCONCLUSIVE", "rank 1 left no in-engine report"),
    ],
)
def test_a_rank_of_another_host_decides(
    hosts: tuple[str, str], tmp_path: Path, how: dict[str, str], verdict: str, said: str
) -> None:
    with started(hosts, tmp_path, **how) as both:
        printed = both.wait("FAILED")
        assert f"{verdict} lm-head-shared" in printed, printed
        assert said in printed
        assert both.processes[0].wait(40) == 1
