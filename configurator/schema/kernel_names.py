"""What content says of kernels by their names in a profiler trace."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from configurator.schema.base import Name, StrictModel, Text


def _compiles(pattern: str) -> str:
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"no regular expression: {error}") from None
    return pattern


Pattern = Annotated[str, Field(min_length=1, max_length=500), AfterValidator(_compiles)]
"""A regular expression."""
PositiveInt = Annotated[int, Field(gt=0)]


class Family(StrictModel):
    """Kernels that do one job, by what their names in a profiler trace hold."""

    family: Name
    """Name of the family."""
    patterns: list[Pattern] = Field(min_length=1)
    """Regular expressions, one of which is found in the name of each of its kernels."""
    job: Name
    """What they do, for instance moe, gemm, attention, communication, copy; of the kernels of one
    job those of different families are shown apart."""
    also: list[Name] = []
    """Other jobs that they do too, so that their presence contradicts no other family there."""
    backends: list[Text] = []
    """Values of the engine's option for the job that run these kernels; several share them."""
    dtype: Literal["fp32", "bf16", "fp8", "fp4"] | None = None
    """Numbers that they multiply."""
    inputs: dict[Literal["bf16", "fp16", "fp8", "int8", "int4", "fp4"], Pattern] = {}
    """Of kernels of experts: numbers of their input, each with a regular expression that is found
    in the names of those that take them."""


class PerStep(StrictModel):
    """How many kernels a step runs with the mechanism."""

    steps: list[Literal["decode", "verify", "draft"]] = Field(min_length=1)
    """The steps that it covers."""
    per_layer: PositiveInt
    """Kernels a layer of the model, as published."""
    beside: PositiveInt
    """Kernels of a step beside its layers, at most."""
    source: Text
    """Where both are published."""
