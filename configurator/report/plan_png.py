"""A picture as PNG, by a library of the extra `plot`."""

from __future__ import annotations

import importlib
from typing import Any

from configurator.errors import ConfiguratorError

_ZOOM = 2.0
"""Two pixels for a unit: sharp on today's screens and in documents."""
_WORD = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="60" height="20">'
    "<text x='2' y='16' font-family=\"'DejaVu Sans', 'Liberation Sans', 'Noto Sans', Arial\">{}"
    "</text></svg>"
)


def png(svg: str) -> bytes:
    """The picture in its light colours.

    Raises:
        ConfiguratorError: PLN005, the library is not installed, or it finds no font and would
            leave out every word without saying so.
    """
    try:
        library: Any = importlib.import_module("resvg_py")
    except ImportError as error:
        raise ConfiguratorError.single(
            "PLN005", "a PNG is drawn by resvg-py, which is not installed here",
            "pip install 'serving-configurator[plot]', or give a name that ends in .svg",
        ) from error  # fmt: skip
    if _draw(library, _WORD.format("Mm")) == _draw(library, _WORD.format("")):
        raise ConfiguratorError.single(
            "PLN005", "there is no font here that a PNG's words could be drawn in",
            "install one, for instance the package fonts-dejavu-core, or give a name that ends "
            "in .svg",
        )  # fmt: skip
    return _draw(library, svg)


def _draw(library: Any, svg: str) -> bytes:
    return bytes(library.svg_to_bytes(svg_string=svg, zoom=_ZOOM))
