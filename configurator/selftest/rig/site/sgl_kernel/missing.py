"""What this package does not have."""

from __future__ import annotations

from typing import Any


class Missing:
    """An op that can be imported and not called."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *_args: Any, **_options: Any) -> Any:
        """Say which op a new path of the engine needs."""
        raise NotImplementedError(f"this sgl_kernel in plain torch has no {self.name}")
