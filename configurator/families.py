"""Kernels by family: what each name in a trace does, as content tells."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from configurator.evidence.trace_model import Kernel, TraceStep
from configurator.schema.kernel_names import Family

OTHER = "other"
"""Family and job of kernels that no content names."""


@dataclass(frozen=True, slots=True)
class KernelFamily:
    """What kernels of one family do."""

    name: str
    job: str
    also: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    dtype: str = ""
    """Numbers that they multiply; empty: not told."""
    patterns: tuple[re.Pattern[str], ...] = ()
    inputs: tuple[tuple[str, re.Pattern[str]], ...] = ()
    """Numbers of the input, with what the name of such a kernel holds."""

    def inputs_of(self, name: str) -> str:
        """The numbers that one of them takes, as its name tells; empty: it does not."""
        return next((numbers for numbers, held in self.inputs if held.search(name)), "")

    def does(self, job: str) -> bool:
        """Whether they do a job, alone or among others."""
        return job == self.job or job in self.also


@dataclass(frozen=True, slots=True)
class Families:
    """All families, in the order in which they are tried."""

    every: tuple[KernelFamily, ...] = ()
    _known: dict[str, KernelFamily] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of_content(cls, families: Iterable[Family]) -> Families:
        """From the entries of a library."""
        return cls(
            tuple(
                KernelFamily(
                    one.family, one.job, tuple(one.also), tuple(one.backends), one.dtype or "",
                    tuple(map(re.compile, one.patterns)),
                    tuple((numbers, re.compile(held)) for numbers, held in one.inputs.items()),
                )
                for one in families
            )
        )  # fmt: skip

    def of(self, name: str) -> KernelFamily:
        """The first family with a pattern that the kernel's name holds; or `other`."""
        found = self._known.get(name)
        if found is None:
            fits = (f for f in self.every if any(p.search(name) for p in f.patterns))
            found = self._known[name] = next(fits, _OTHER)
        return found

    def last_gemm(self, step: TraceStep) -> str:
        """The last dense GEMM of a step, which is the LM head's; empty: the step shows none."""
        return next(
            (ran.name for ran in reversed(step.sample) if self.of(ran.name).job == "gemm"), ""
        )

    def head_gemm(self, step: TraceStep) -> str:
        """The last dense GEMM where it is the LM head's: nothing after it could be the head.

        Empty: there is none, or a kernel after it multiplies, attends, normalizes or is not known.
        """
        for ran in reversed(step.sample):
            family = self.of(ran.name)
            if family.job == "gemm":
                return ran.name
            if family.name == OTHER or family.job not in _AFTER_THE_HEAD:
                return ""
        return ""

    def knows(self, job: str, backend: str) -> bool:
        """Whether any kernels are known by which a backend would show in a trace.

        Those of another backend contradict only such a one.
        """
        return any(family.does(job) and backend in family.backends for family in self.every)

    def with_backend(self, job: str, kernels: Iterable[Kernel]) -> dict[KernelFamily, list[Kernel]]:
        """The kernels of a job whose families name a backend, by family."""
        found: dict[KernelFamily, list[Kernel]] = {}
        for kernel in kernels:
            family = self.of(kernel.name)
            if family.does(job) and family.backends:
                found.setdefault(family, []).append(kernel)
        return found


_AFTER_THE_HEAD = (
    "copy", "communication", "gemm-reduce", "gemm-scales", "sampling", "speculation", "other",
)  # fmt: skip
"""Jobs of kernels that run between the logits and the tokens."""
_OTHER = KernelFamily(OTHER, OTHER)


@dataclass(frozen=True, slots=True)
class FamilyShare:
    """What one family takes of some kernels and copies."""

    family: str
    job: str
    kernels: float
    """Kernels and copies a step."""
    gpu_us: float
    """Their time a step, added up."""
    share: float
    """Of the time of all, 0 to 1."""


def shares_of(kernels: Iterable[Kernel], families: Families, steps: int = 1) -> list[FamilyShare]:
    """The families of kernels, as means over so many steps; the one with the most time first."""
    counts: dict[KernelFamily, list[float]] = {}
    for kernel in kernels:
        entry = counts.setdefault(families.of(kernel.name), [0, 0.0])
        entry[0] += kernel.count
        entry[1] += kernel.count * kernel.mean_us
    total = sum(time for _, time in counts.values()) or 1.0
    found = [
        FamilyShare(
            family.name, family.job, round(count / steps, 3), round(time / steps, 3),
            round(time / total, 4),
        )
        for family, (count, time) in counts.items()
    ]  # fmt: skip
    return sorted(found, key=lambda share: (-share.gpu_us, share.family))
