"""A second opinion on plain decode: aisimulate, where it is installed, run as a program.

It interpolates operators that its authors measured; we count bytes. Where both know a model and a
machine, a reader sees how far apart two methods are. Nothing of it goes into our own figures.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from configurator.collector.redaction import redact_text
from configurator.deployment import Deployment
from configurator.evidence.report_values import as_dict, as_float
from configurator.plan.figures import Figure, exact

PROGRAM = "aisimulate"
TIMEOUT_S = 120.0
_OUTPUT_TOKENS = 64
"""Enough for a mean; the context hardly grows over them."""
_LONGEST = 300
_NOWHERE = "http://127.0.0.1:9"
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_OFFLINE = dict.fromkeys(_PROXIES, _NOWHERE)
"""It would ask a hub for what it does not know: nothing listens there, so it says so at once."""


@dataclass(frozen=True, slots=True)
class Opinion:
    """What the other program says, or why it says nothing."""

    per_token: Figure | None = None
    """Seconds a token of plain decode."""
    kv_per_token: Figure | None = None
    """KV bytes a token on one GPU."""
    weights: Figure | None = None
    """Bytes of weights on one GPU."""
    note: str = ""
    """Why there is none."""


def opinion_of(deployment: Deployment, batch: int, context: int) -> Opinion:
    """Ask the program; it never raises, and never touches the network.

    Args:
        deployment: its model and hardware must be known there.
        batch: sequences decoded together.
        context: tokens of each.
    """
    system = deployment.hardware.aisimulate
    if system is None:
        return Opinion(note=f"it has no data of {deployment.hardware.name}")
    program = _program()
    if program is None:
        return Opinion(
            note=f"{PROGRAM} is not installed: pip install 'serving-configurator[predict]'"
        )
    with tempfile.TemporaryDirectory(prefix="configurator-") as folder:
        question = Path(folder) / "question.json"
        question.write_text(json.dumps(_question(deployment, system, batch, context)))
        return _asked(program, question)


def _program() -> str | None:
    """On the PATH, or beside the Python that runs us."""
    beside = Path(sys.executable).with_name(PROGRAM)
    return shutil.which(PROGRAM) or (str(beside) if os.access(beside, os.X_OK) else None)


def _question(deployment: Deployment, system: str, batch: int, context: int) -> dict[str, Any]:
    topology = deployment.profile.topology
    parallelism = {
        "tensor": topology.tensor,
        "pipeline": topology.pipeline,
        "moe_tensor": max(1, topology.tensor // topology.expert),
        "moe_expert": topology.expert,
    }
    if deployment.model.moe is None:
        parallelism = {"tensor": topology.tensor, "pipeline": topology.pipeline}
    path = deployment.profile.model.path
    here = path is not None and Path(path, "config.json").is_file()
    return {
        "traffic": {
            "source": {
                "type": "synthetic", "input_tokens": context, "output_tokens": _OUTPUT_TOKENS,
            },
            "load": {"type": "concurrency", "concurrency": batch},
            "stop": {"requests": batch},
        },
        "engine": {
            "mode": "aggregated",
            "model": path if here else deployment.model.repository,
            "hardware": system,
            "backend": deployment.engine.engine,
            "workers": {"aggregated": {"parallelism": parallelism}},
        },
    }  # fmt: skip


def _asked(program: str, question: Path) -> Opinion:
    words = [
        program, "predict", "--config", str(question), "--format", "json",
        "--detail", "memory,summary", "--output-dir", str(question.with_name("answer")),
    ]  # fmt: skip
    try:
        done = subprocess.run(
            words, capture_output=True, timeout=TIMEOUT_S, env={**os.environ, **_OFFLINE},
            stdin=subprocess.DEVNULL, cwd=question.parent, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Opinion(note=f"no answer within {TIMEOUT_S:g} s")
    except OSError as error:
        return Opinion(note=f"{program} cannot be run: {error.strerror or error}")
    if done.returncode != 0:
        return Opinion(note=_complaint(done.stderr.decode("utf-8", "replace")))
    return _answer(done.stdout.decode("utf-8", "replace"))


def _complaint(text: str) -> str:
    """The line that says why, without what surrounds it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    last = lines[-1] if lines else "it gives no reason"
    said = next((line for line in reversed(lines) if "failed: " in line), last)
    kept = redact_text(said.partition("failed: ")[2] or said)
    return f"it has none: {kept[:_LONGEST]}{'...' if len(kept) > _LONGEST else ''}"


def _answer(text: str) -> Opinion:
    try:
        data = as_dict(json.loads(text))
    except ValueError:
        return Opinion(note="its answer is no JSON")
    summary = as_dict(data.get("summary"))
    milliseconds = as_float(summary.get("mean_tpot_ms"))
    if milliseconds is None or milliseconds <= 0:
        return Opinion(note="its answer has no mean_tpot_ms")
    provenance = as_dict(as_dict(summary.get("prediction_provenance")).get("aggregated"))
    version = provenance.get("data_version")
    source = f"{PROGRAM}, data of {version}" if isinstance(version, str) else PROGRAM
    memory = as_dict(as_dict(as_dict(data.get("details")).get("sections")).get("memory"))
    role = as_dict(as_dict(memory.get("roles")).get("aggregated"))
    return Opinion(
        exact(milliseconds / 1e3, "s", "mean_tpot_ms", source),
        _bytes(role.get("kv_size_per_token_bytes"), "B/token", source),
        _bytes(as_dict(role.get("memory_breakdown")).get("weights_bytes"), "B", source),
    )


def _bytes(value: Any, unit: str, source: str) -> Figure | None:
    size = as_float(value)
    return exact(size, unit, "as it says", source) if size is not None and size > 0 else None
