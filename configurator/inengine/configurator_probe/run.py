"""One report in the making."""

from __future__ import annotations

import time
from typing import Any

# Two reports a start share the two seconds that the probe may take; the early one looks at a block.
_COMPARING_SECONDS = {"ready": 1.2}


class Run:
    """One report in the making: what failed, and which storages were seen."""

    def __init__(self, stage: str = "ready") -> None:
        self.start = time.perf_counter()
        self.comparing_seconds = _COMPARING_SECONDS.get(stage, 0)
        self.errors: list[dict[str, str]] = []
        self.storages: dict[Any, str] = {}
        self.counted: set[str] = set()

    def part(self, name: str, function: Any, *arguments: Any) -> Any:
        """What `function` returns; if it fails, the error in its place and in `errors`."""
        try:
            return function(*arguments)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"[:500]
            self.errors.append({"part": name, "error": text})
            return {"error": text}

    def label(self, tensor: Any) -> str:
        """A name of the tensor's storage, the same for every tensor that lies in it."""
        storage = tensor.untyped_storage()
        if not storage.nbytes():
            return "empty"
        key = (str(tensor.device), storage.data_ptr())
        return self.storages.setdefault(key, f"S{len(self.storages)}")
