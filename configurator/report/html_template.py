"""The templates of pages; imported only where a page is made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from configurator.report.html_text import clean


def environment() -> Any:
    """Templates whose every text is redacted, made printable and escaped."""
    import jinja2
    from markupsafe import Markup

    def finalize(value: object) -> object:
        # The last gate: no text reaches the page without being redacted and made printable.
        return (
            clean(value, 4096)
            if isinstance(value, str) and not isinstance(value, Markup)
            else value
        )

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=finalize,
    )
