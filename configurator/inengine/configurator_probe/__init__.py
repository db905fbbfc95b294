"""Reports from inside SGLang what every rank was built as.

A plugin of SGLang (entry point group `sglang.srt.plugins`), of the standard library only: the
probe bundle carries it into engine containers, so its modules import each other relatively and
nothing else of ours. It reads objects after the engine has built them, writes one JSON report a
rank, and changes nothing that the engine computes. docs/report-schema.md has the fields.

CONFIGURATOR_PROBE_DIR       directory of the reports, made if it is missing
CONFIGURATOR_PROBE_REQUIRED  1: the engine stops if the report cannot be made
"""

from __future__ import annotations

from .gathering import KEY
from .registering import register

__all__ = ["KEY", "register"]
