"""Presence and versions of the kernel packages of an engine, and whether they have this GPU's code.

Reads what is installed and what the engine's metadata pins; imports nothing of it but torch, and
without torch or a GPU says what can be said. That a package is missing is a fact, and wrong only
where a mechanism that needs it was asked for (settings: {"packages": [...]}).
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import mmap
import os
import re
import struct
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from selftest_kit import Report, arch_of, main, torch, version_of

ENGINE = "sglang"
KERNELS = ("sglang-kernel", "sgl-kernel")
GEMM = ("sgl-deep-gemm", "deep-gemm")
MAGIC = b"\x50\xed\x55\xba"
"""Of a container of device code inside a library."""
HEADER = struct.Struct("<4sHHQ")
"""Magic, version, length of this header, length of what follows."""
ENTRY = struct.Struct("<HHIQIIHHIIIQ")
"""Kind, -, length of this header, length of the code, -, -, -, -, architecture, -, -, flags."""
PTX, SASS = 1, 2
EXACT = 1 << 20
"""Flag of code for one architecture alone, as sm_90a; seen beside cuobjdump's names for it."""
_PIN = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?\s*==\s*([^;,\s]+)\s*(;.*)?$")


def run(report: Report) -> None:
    """One check for each package; each says `ok`, `missing` or `mismatch` in its facts."""
    pins = pinned()
    arch = _arch()
    wanted = [str(name) for name in report.settings.get("packages", [])]
    told = _Told(report, wanted)
    told.package("triton", ("triton",), pins)
    told.package("humming-kernels", ("humming-kernels",), pins)
    _flashinfer(told, pins)
    told.package("deep_gemm", GEMM, pins)
    _engine_kernels(told, pins, arch)
    _torch(told, pins, arch)
    _nvrtc(told)
    for name in wanted:
        if normalized(name) not in told.named:
            told.package(name, (name,), pins)
    if torch is None and version_of(ENGINE) is None:
        why = f"neither {ENGINE} nor torch is installed in {sys.executable}: it is no engine's"
        told.say("environment", "not_run", f"{why}; give the engine's own, --python PATH")


def normalized(name: str) -> str:
    """A package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned() -> dict[str, str]:
    """The exact versions that the engine's own metadata asks for, by normalized name."""
    try:
        requirements = importlib.metadata.requires(ENGINE) or []
    except importlib.metadata.PackageNotFoundError:
        return {}
    found = (_PIN.match(text) for text in requirements)
    return {normalized(m[1]): m[2] for m in found if m and "extra" not in (m[3] or "")}


def _arch() -> str | None:
    if torch is None or not torch.cuda.is_available():
        return None
    return arch_of(torch.cuda.get_device_properties(0))


class _Told:
    """Checks with their state, and which packages they speak of."""

    def __init__(self, report: Report, wanted: Sequence[str]) -> None:
        self.report = report
        self.wanted = {normalized(name) for name in wanted}
        self.named: set[str] = set()

    def say(
        self, name: str, state: str, reason: str, packages: Sequence[str] = (), **facts: object
    ) -> None:
        """One check: that a package is missing is wrong only where it was asked for."""
        names = {normalized(each) for each in (name, *packages)}
        self.named |= names
        verdict = {"ok": "ok", "missing": "ok", "mismatch": "wrong"}.get(state, "not_run")
        if state == "missing" and names & self.wanted:
            verdict = "wrong"
        self.report.check(name, verdict, reason, state=state, **facts)

    def package(self, name: str, packages: Sequence[str], pins: dict[str, str]) -> None:
        """A package by any of the names that it is published under, against the engine's pin."""
        package, version = first_installed(packages)
        if version is None:
            pin = next((pins[each] for each in packages if each in pins), None)
            what = next((each for each in packages if each in pins), packages[0])
            remedy = f"pip install {what}{'==' + pin if pin else ''}"
            self.say(name, "missing", f"not installed; {remedy}", packages)
            return
        reason = mismatch(package, version, pins)
        state = "mismatch" if reason else "ok"
        self.say(name, state, reason, packages, version=version, pinned=pins.get(package))


def first_installed(packages: Sequence[str]) -> tuple[str, str | None]:
    """The first of some packages that is installed, and its version."""
    for package in packages:
        version = version_of(package)
        if version is not None:
            return package, version
    return packages[0], None


def mismatch(package: str, version: str, pins: dict[str, str]) -> str:
    """Why a version is not the one that the engine pins; empty: it is, or nothing is pinned."""
    pin = pins.get(normalized(package))
    # A local part names the build: 2.11.0+cu130 is 2.11.0.
    if pin is None or pin in (version, version.partition("+")[0]):
        return ""
    engine = version_of(ENGINE)
    return f"{version} is installed, {ENGINE} {engine} pins {pin}; pip install {package}=={pin}"


def _flashinfer(told: _Told, pins: dict[str, str]) -> None:
    """FlashInfer, and the two packages with its compiled kernels, of one and the same version."""
    told.package("flashinfer-python", ("flashinfer-python",), pins)
    main_version = version_of("flashinfer-python")
    if main_version is None:
        return
    hidden = os.environ.get("FLASHINFER_DISABLE_VERSION_CHECK")
    for name, lack in (
        ("flashinfer-cubin", "cubins are fetched over the network when first needed"),
        ("flashinfer-jit-cache", "kernels are compiled when first needed, minutes of a start"),
    ):
        version = version_of(name)
        remedy = f"pip install {name}=={main_version}"
        if version is None:
            told.say(name, "missing", f"not installed: {lack}; {remedy}")
        elif version.partition("+")[0] != main_version.partition("+")[0]:
            reason = f"{version} beside flashinfer-python {main_version}; {remedy}"
            if hidden:
                reason += f" (FLASHINFER_DISABLE_VERSION_CHECK={hidden} only hides it)"
            told.say(name, "mismatch", reason, version=version)
        else:
            told.say(name, "ok", "", version=version)


def _engine_kernels(told: _Told, pins: dict[str, str], arch: str | None) -> None:
    """The engine's compiled kernels: their version, and machine code for this GPU."""
    told.package("sglang-kernel", KERNELS, pins)
    package, version = first_installed(KERNELS)
    if version is None:
        return
    libraries = [
        path
        for file in importlib.metadata.files(package) or ()
        if file.name.endswith(".so") and (path := Path(str(file.locate()))).is_file()
    ]
    found = {path.name if path.parent.name == "sgl_kernel" else f"{path.parent.name}/{path.name}":
             codes(path) for path in libraries}  # fmt: skip
    shown = {name: [*sorted(sass), *(f"PTX {each}" for each in sorted(ptx))]
             for name, (sass, ptx) in found.items()}  # fmt: skip
    sass = set().union(*(each[0] for each in found.values())) if found else set()
    ptx = set().union(*(each[1] for each in found.values())) if found else set()
    told.say("sglang-kernel code", *fits(arch, sass, ptx, f"pip install -U {package}"), code=shown)


def codes(path: Path) -> tuple[set[str], set[str]]:
    """Architectures of the machine code, and of the PTX, inside a compiled library."""
    sass: set[str] = set()
    ptx: set[str] = set()
    for kind, name in _entries(path):
        if kind in (PTX, SASS):
            (sass if kind == SASS else ptx).add(name)
    return sass, ptx


def _entries(path: Path) -> Iterator[tuple[int, str]]:
    """Kind and architecture of every piece of device code in a file."""
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size < HEADER.size:
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            place = data.find(MAGIC)
            while place >= 0:
                yield from _container(data, place)
                place = data.find(MAGIC, place + len(MAGIC))


def _container(data: mmap.mmap, place: int) -> Iterator[tuple[int, str]]:
    if place + HEADER.size > len(data):
        return
    _, version, length, size = HEADER.unpack_from(data, place)
    end = place + length + size
    if version != 1 or length != HEADER.size or end > len(data):
        return  # The four bytes stand there by chance.
    at = place + length
    while at + ENTRY.size <= end:
        kind, _, head, body, *_, arch, _, _, flags = ENTRY.unpack_from(data, at)
        if head < ENTRY.size:
            return
        yield kind, f"sm_{arch}{'a' if flags & EXACT else ''}"
        at += head + body


def fits(arch: str | None, sass: set[str], ptx: set[str], remedy: str) -> tuple[str, str]:
    """State and reason of code of some architectures on a GPU of another."""
    have = ", ".join(sorted(sass)) or "none"
    if not sass and not ptx:
        return "mismatch", f"no device code is in its libraries; {remedy}"
    if arch is None:
        return "unknown", f"machine code for {have}; no GPU here to compare with"
    if arch in sass or f"{arch}a" in sass:
        return "ok", ""
    same = [each for each in sass if not each.endswith("a") and _older(each, arch)
            and _number(each) // 10 == _number(arch) // 10]  # fmt: skip
    if same:
        return "ok", f"no {arch} code; that for {max(same, key=_number)} runs on it"
    if any(_older(each, arch) for each in ptx if not each.endswith("a")):
        return "ok", f"no {arch} code, only PTX: the driver compiles it at the first start"
    return "mismatch", f"machine code for {have}, and this GPU is {arch}; {remedy}"


def _older(code: str, arch: str) -> bool:
    return _number(code) <= _number(arch)


def _number(arch: str) -> int:
    return int(re.sub(r"\D", "", arch))


def _torch(told: _Told, pins: dict[str, str], arch: str | None) -> None:
    if torch is not None and not torch.version.cuda:
        version, pin = torch.__version__, pins.get("torch")
        told.say("torch", "unknown", f"{version} is built for CPUs", version=version, pinned=pin)
        return
    told.package("torch", ("torch",), pins)
    if torch is None:
        return
    have = {each for each in torch.cuda.get_arch_list() if each.startswith("sm_")}
    ptx = {each.replace("compute", "sm") for each in torch.cuda.get_arch_list()} - have
    remedy = "install a torch built for a newer CUDA"
    told.say("torch code", *fits(arch, have, ptx, remedy), code=sorted(have))


def _nvrtc(told: _Told) -> None:
    """The compiler that kernels call while they run: there, and of torch's CUDA version."""
    wanted = torch.version.cuda if torch is not None else None
    for path in _nvrtc_files():
        try:
            library = ctypes.CDLL(path)
            major, minor = ctypes.c_int(), ctypes.c_int()
            if library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)):
                continue
        except (OSError, AttributeError):
            continue
        version = f"{major.value}.{minor.value}"
        if wanted and wanted.split(".")[0] != str(major.value):
            reason = (
                f"NVRTC {version} beside torch for CUDA {wanted}; "
                f"pip install nvidia-cuda-nvrtc of CUDA {wanted}"
            )
            told.say("nvrtc", "mismatch", reason, version=version)
        else:
            told.say("nvrtc", "ok", "", version=version)
        return
    told.say("nvrtc", "missing", "libnvrtc.so does not load; pip install nvidia-cuda-nvrtc")


def _nvrtc_files() -> Iterator[str]:
    for package in importlib.metadata.distributions():
        if normalized(package.name or "").startswith("nvidia-cuda-nvrtc"):
            for file in package.files or ():
                if re.fullmatch(r"libnvrtc\.so\.\d+", file.name):
                    yield str(file.locate())
    # What a CUDA installation has, by the loader's own search.
    major = (torch.version.cuda or "13").split(".")[0] if torch is not None else "13"
    yield from (f"libnvrtc.so.{major}", "libnvrtc.so.12", "libnvrtc.so")


if __name__ == "__main__":
    main(run, torch_needed=False)
