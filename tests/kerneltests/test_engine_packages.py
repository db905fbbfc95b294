"""What the self-test of packages reads: pins, versions, and device code inside libraries."""

from __future__ import annotations

import sys
from pathlib import Path

import engine_packages_selftest as packages
import pytest
from selftest_kit import Report

HEADER_BYTES = 16


def code(kind: int, arch: int, flags: int = 0, body: bytes = b"\x90" * 24) -> bytes:
    """One piece of device code as compilers put it into a library."""
    head = packages.ENTRY.pack(kind, 0x101, 64, len(body), 0, 0, 8, 1, arch, 0, 0, flags)
    return head.ljust(64, b"\0") + body


def container(*pieces: bytes) -> bytes:
    inside = b"".join(pieces)
    return packages.HEADER.pack(packages.MAGIC, 1, HEADER_BYTES, len(inside)) + inside


def codes(folder: Path, data: bytes) -> tuple[set[str], set[str]]:
    path = folder / "lib.so"
    path.write_bytes(data)
    return packages.codes(path)


def test_code_of_every_architecture_is_found(tmp_path: Path) -> None:
    exact = packages.EXACT | 0x8011
    data = b"\x7fELF" + b"\0" * 100
    data += container(code(packages.SASS, 80, 0x8011), code(packages.SASS, 90, exact))
    data += b"\1" * 33 + container(code(packages.SASS, 120, exact), code(packages.PTX, 90))
    assert codes(tmp_path, data) == ({"sm_80", "sm_90a", "sm_120a"}, {"sm_90"})


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"short",
        packages.MAGIC,
        packages.MAGIC + b"\xff" * 60,
        packages.HEADER.pack(packages.MAGIC, 1, HEADER_BYTES, 1 << 40) + code(2, 90),
        packages.HEADER.pack(packages.MAGIC, 9, HEADER_BYTES, 88) + code(2, 90),
        container(packages.ENTRY.pack(2, 0, 0, 0, 0, 0, 0, 0, 90, 0, 0, 0)),
        b"no code at all" * 10,
    ],
)
def test_bytes_that_only_look_like_code(tmp_path: Path, data: bytes) -> None:
    assert codes(tmp_path, data) == (set(), set())


@pytest.mark.parametrize(
    ("arch", "sass", "ptx", "state", "said"),
    [
        ("sm_90", {"sm_80", "sm_90"}, set(), "ok", ""),
        ("sm_90", {"sm_90a"}, set(), "ok", ""),
        ("sm_86", {"sm_80"}, set(), "ok", "no sm_86 code; that for sm_80 runs on it"),
        ("sm_121", {"sm_120"}, set(), "ok", "no sm_121 code; that for sm_120 runs on it"),
        # Code for sm_120a runs on nothing else.
        (
            "sm_121",
            {"sm_120a", "sm_90"},
            set(),
            "mismatch",
            "for sm_120a, sm_90, and this GPU is s",
        ),
        ("sm_121", {"sm_90"}, {"sm_90"}, "ok", "only PTX: the driver compiles it"),
        ("sm_121", {"sm_90"}, {"sm_90a"}, "mismatch", "this GPU is sm_121; REMEDY"),
        ("sm_75", {"sm_80"}, {"sm_80"}, "mismatch", "this GPU is sm_75"),
        ("sm_90", set(), set(), "mismatch", "no device code is in its libraries; REMEDY"),
        (None, {"sm_90"}, set(), "unknown", "machine code for sm_90; no GPU here"),
    ],
)
def test_code_against_a_gpu(
    arch: str | None, sass: set[str], ptx: set[str], state: str, said: str
) -> None:
    found, reason = packages.fits(arch, sass, ptx, "REMEDY")
    assert found == state
    assert said in reason
    assert bool(reason) == bool(said)


def engine(monkeypatch: pytest.MonkeyPatch, folder: Path, *requires: str) -> None:
    """An installed engine with these requirements, and other packages beside it."""
    add(folder, "sglang", "0.5.99", *requires)
    monkeypatch.syspath_prepend(str(folder))


def add(folder: Path, name: str, version: str, *requires: str) -> None:
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    lines = [f"Requires-Dist: {text}" for text in requires]
    text = "\n".join(["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *lines])
    (info / "METADATA").write_text(text + "\n")


def test_exact_pins_of_the_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    engine(
        monkeypatch, tmp_path, "flashinfer_python[cu13]==0.7.2", "torch==2.14.1", "numpy>=2",
        'sgl-eval==0.1.3; extra == "test"', 'pin==1; sys_platform == "linux"',
    )  # fmt: skip
    pins = packages.pinned()
    assert pins == {"flashinfer-python": "0.7.2", "torch": "2.14.1", "pin": "1"}
    assert packages.mismatch("torch", "2.14.1+cu130", pins) == ""
    assert packages.mismatch("numpy", "1.0", pins) == ""
    assert packages.mismatch("torch", "2.13.0", pins) == (
        "2.13.0 is installed, sglang 0.5.99 pins 2.14.1; pip install torch==2.14.1"
    )


def told(**settings: object) -> dict[str, tuple[str, str, str]]:
    """Verdict, state and reason of each check."""
    report = Report(dict(settings))
    packages.run(report)
    return {c["name"]: (c["verdict"], c["facts"]["state"], c["reason"]) for c in report.checks}


def test_cubins_of_another_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    engine(monkeypatch, tmp_path, "flashinfer_python==0.7.2")
    add(tmp_path, "flashinfer-python", "0.7.2")
    add(tmp_path, "flashinfer-cubin", "0.6.17")
    add(tmp_path, "flashinfer-jit-cache", "0.7.2+cu130")
    monkeypatch.setenv("FLASHINFER_DISABLE_VERSION_CHECK", "1")
    found = told()
    assert found["flashinfer-python"] == ("ok", "ok", "")
    assert found["flashinfer-jit-cache"] == ("ok", "ok", "")
    verdict, state, reason = found["flashinfer-cubin"]
    assert (verdict, state) == ("wrong", "mismatch")
    assert reason == (
        "0.6.17 beside flashinfer-python 0.7.2; pip install flashinfer-cubin==0.7.2 "
        "(FLASHINFER_DISABLE_VERSION_CHECK=1 only hides it)"
    )


def test_a_missing_package_is_wrong_only_where_it_was_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    engine(monkeypatch, tmp_path, "humming-kernels[cu13]==0.1.12")
    remedy = "not installed; pip install humming-kernels==0.1.12"
    assert told()["humming-kernels"] == ("ok", "missing", remedy)
    found = told(packages=["Humming_Kernels", "my-package", "sgl_kernel"])
    assert found["humming-kernels"] == ("wrong", "missing", remedy)
    assert found["my-package"][:2] == ("wrong", "missing")
    # The engine's kernels are published under two names, either of which will do.
    assert found["sglang-kernel"][:2] == ("wrong", "missing")


def test_without_torch_what_can_be_said_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "torch", None)
    found = told()
    assert found["torch"][0] in ("ok", "wrong")
    assert "torch code" not in found
    assert found["nvrtc"][1] in ("ok", "missing")


def test_a_python_that_is_no_engines_is_not_ok(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(packages, "torch", None)
    engine(monkeypatch, tmp_path)
    assert "environment" not in told()
    monkeypatch.setattr(packages, "ENGINE", "no-such-engine")
    verdict, _, reason = told()["environment"]
    assert verdict == "not_run"
    assert reason == (
        f"neither no-such-engine nor torch is installed in {sys.executable}: it is no engine's; "
        "give the engine's own, --python PATH"
    )
