"""An FP8 LM head for released SGLang, which drafts use as a whole: weight, scales and method.

A plugin of SGLang (entry point group `sglang.srt.plugins`). Once the target's weights are loaded,
and before memory is divided and graphs are captured, its LM head is quantized to FP8 (e4m3). The
engine's own logits path then calls the head's new quantization method. Every module of a draft
that the engine gave the head's weight is replaced by the head itself.

What it cannot do right is refused before the weights load, with every reason, and ends the launch:
a head that stayed BF16 in silence would be the fault that this project exists for.

CONFIGURATOR_FP8_HEAD_GRANULARITY  scales of the weight: per-tensor (default) or per-row
"""

from __future__ import annotations

import sys

__all__ = ["register"]


def register() -> None:
    """Entry point: hook the engine, or end the process.

    Raises:
        SystemExit: it cannot. The engine swallows any Exception of a plugin and would go on with a
            BF16 head.
    """
    try:
        from .registering import hook

        hook()
    except Exception as error:
        text = str(error)
        if not text.startswith(__name__):
            text = f"{__name__} cannot hook this engine: {type(error).__name__}: {error}"
        sys.stderr.write(f"{text}\n")
        raise SystemExit(text) from None
