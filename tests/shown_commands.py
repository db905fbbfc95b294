"""Commands that a document shows, so that a test can run each of them."""

from __future__ import annotations

import re


def shown(document: str) -> list[str]:
    """The `configurator` lines of every bash block, in order."""
    blocks = re.findall(r"```bash\n(.*?)```", document, flags=re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith("configurator ")]
