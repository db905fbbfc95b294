"""What a self-test answers, and what is made of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Verdict = Literal["ok", "slow", "wrong", "not_run"]
"""`wrong` is also a crash, a silence and a missing package that was asked for."""


class _Answered(BaseModel):
    """Part of an answer: further keys are a self-test's own affair, and left out."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, allow_inf_nan=False)


class Check(_Answered):
    """One thing that a self-test looked at."""

    name: str = Field(min_length=1)
    verdict: Verdict
    reason: str = ""
    facts: dict[str, Any] = {}


class Measured(_Answered):
    """A figure with its spread. A zero is no measurement."""

    value: float = Field(gt=0)
    """The median."""
    unit: str = ""
    """`GB/s`, `us`; empty: a ratio."""
    low: float = Field(gt=0)
    """10th percentile of the runs, or for a ratio what their percentiles allow at worst."""
    high: float = Field(gt=0)
    """90th percentile, likewise."""
    runs: int = Field(gt=0)

    @model_validator(mode="after")
    def _ordered(self) -> Measured:
        if not self.low <= self.value <= self.high:
            raise ValueError(f"{self.value:g} is not between {self.low:g} and {self.high:g}")
        return self


class Answer(_Answered):
    """The JSON object on a self-test's last line."""

    checks: list[Check] = Field(min_length=1)
    figures: dict[str, Measured] = {}
    machine: dict[str, Any] = {}
    """Versions, and the GPU: `gpu`, `gpus`, `arch`, `driver`, `torch`, `cuda`, ..."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A self-test that is to run."""

    name: str
    path: Path
    promises: tuple[Promise, ...] = ()
    packages: tuple[str, ...] = ()
    """Packages of the mechanisms that were named, which therefore must be there."""


@dataclass(frozen=True, slots=True)
class Promise:
    """What a kernel entry promises of a self-test's figure."""

    kernel: str
    figure: str
    least: float


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one self-test."""

    name: str
    verdict: Verdict
    reason: str
    seconds: float
    checks: tuple[Check, ...] = ()
    figures: tuple[tuple[str, Measured], ...] = ()
    machine: tuple[tuple[str, Any], ...] = ()
    promises: tuple[Promise, ...] = ()

    @property
    def failed(self) -> bool:
        """Slow or wrong: exit code 1."""
        return self.verdict in ("slow", "wrong")
