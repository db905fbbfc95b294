"""Pictures as SVG: a few shapes with names for their colours; no script, the same bytes each time.

Colours are classes, so that one picture serves a light and a dark page. Rasterizers that know no
media queries take the light ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Literal

from configurator.report.html_text import clean

Anchor = Literal["start", "middle", "end"]
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', 'Liberation Sans', 'Noto Sans', Arial, sans-serif"  # noqa: E501
_WIDE = 0.62
"""Width of a character in ems, of the widest font in the list: text must not reach further."""
_STYLE = f"""
.pl-card {{ fill: #ffffff; }}
.pl-text, .pl-soft, .pl-head, .pl-key {{ font: 13px {FONT}; fill: #1b1f24; }}
.pl-soft {{ fill: #555c66; }}
.pl-head {{ font-weight: 600; font-size: 15px; }}
.pl-key {{ font-size: 11px; font-weight: 600; fill: #000000; }}
.pl-key-light {{ fill: #ffffff; }}
.pl-axis {{ stroke: #555c66; }} .pl-grid {{ stroke: #d5d7d3; }}
.pl-blue {{ fill: #0072b2; }} .pl-sky {{ fill: #56b4e9; }} .pl-orange {{ fill: #e69f00; }}
.pl-green {{ fill: #009e73; }} .pl-pink {{ fill: #cc79a7; }} .pl-red {{ fill: #d55e00; }}
.pl-grey {{ fill: #8d949c; }} .pl-free {{ fill: #ffffff; }}
.pl-over {{ fill: #ffffff; fill-opacity: .55; }}
.pl-edge {{ stroke: #1b1f24; stroke-width: 1; }}
.pl-band {{ fill: #56b4e9; fill-opacity: .45; }}
.pl-curve {{ fill: none; stroke: #0072b2; stroke-width: 2; }}
.pl-mark {{ stroke: #1b1f24; stroke-width: 2; }}
.pl-dash {{ stroke: #b34700; stroke-width: 2; stroke-dasharray: 6 4; }}
@media screen and (prefers-color-scheme: dark) {{
.pl-card, .pl-free {{ fill: #1b1f24; }}
.pl-text, .pl-head {{ fill: #e8eaec; }} .pl-soft {{ fill: #a9b1ba; }}
.pl-over {{ fill: #1b1f24; }}
.pl-axis {{ stroke: #a9b1ba; }} .pl-grid {{ stroke: #3a4149; }}
.pl-edge, .pl-mark {{ stroke: #e8eaec; }}
.pl-curve {{ stroke: #7cc4f2; }} .pl-dash {{ stroke: #ff9d57; }}
}}
"""
_SIZES = {"pl-head": 15, "pl-key": 11}


def wide(text: str, kind: str = "pl-text") -> float:
    """How much room a text may take, in units of the picture."""
    return len(text) * _WIDE * _SIZES.get(kind.split()[0], 13)


def fitted(text: str, room: float, kind: str = "pl-text") -> str:
    """The text, cut with an ellipsis to the room there is."""
    most = int(room / (_WIDE * _SIZES.get(kind.split()[0], 13)))
    return text if len(text) <= most else f"{text[: max(0, most - 1)].rstrip()}…"


class Canvas:
    """Shapes in the order in which they are drawn."""

    def __init__(self, width: float) -> None:
        self.width = width
        self._parts: list[str] = []

    def rect(self, x: float, y: float, w: float, h: float, kind: str, title: str = "") -> None:
        """A box; nothing where it would be thinner than nothing."""
        if w > 0 and h > 0:
            self._add("rect", {"x": x, "y": y, "width": w, "height": h, "class": kind}, title)

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        """A straight line."""
        self._add("line", {"x1": x1, "y1": y1, "x2": x2, "y2": y2, "class": kind})

    def path(
        self, points: Iterable[tuple[float, float]], kind: str, *, closed: bool = False
    ) -> None:
        """A line through points, or the area within them."""
        text = " ".join(f"{_number(x)},{_number(y)}" for x, y in points)
        self._add("polygon" if closed else "polyline", {"points": text, "class": kind})

    def dot(self, x: float, y: float, radius: float, kind: str, title: str = "") -> None:
        """A filled circle."""
        self._add("circle", {"cx": x, "cy": y, "r": radius, "class": kind}, title)

    def text(
        self, x: float, y: float, text: str, kind: str = "pl-text", anchor: Anchor = "start",
        room: float | None = None,
    ) -> None:  # fmt: skip
        """One line of text, cut to `room`; the whole is its tooltip then."""
        whole = " ".join(clean(text, 400).split())
        kept = whole if room is None else fitted(whole, room, kind)
        tip = f"<title>{escape(whole)}</title>" if kept != whole else ""
        attributes: dict[str, float | str] = {"x": x, "y": y, "class": kind}
        if anchor != "start":
            attributes["text-anchor"] = anchor
        self._parts.append(f"<text{_attributes(attributes)}>{tip}{escape(kept)}</text>")

    def document(self, height: float, title: str, description: str, name: str = "plan") -> str:
        """The whole picture, with a title and a description for those who do not see it.

        Args:
            height: of the picture, in its units.
            title: what it is, in a few words.
            description: what it shows, with the values.
            name: what its ids begin with, where several stand on one page.
        """
        w, h = _number(self.width), _number(height)
        return "\n".join([
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" width="{w}" '
            f'height="{h}" role="img" aria-labelledby="{name}-title {name}-desc">',
            f'<title id="{name}-title">{escape(clean(title))}</title>',
            f'<desc id="{name}-desc">{escape(clean(description, 4000))}</desc>',
            f"<style>{_STYLE}</style>",
            f'<rect class="pl-card" width="{w}" height="{h}"/>',
            *self._parts,
            "</svg>\n",
        ])  # fmt: skip

    def _add(self, name: str, attributes: dict[str, float | str], title: str = "") -> None:
        shown = _attributes(attributes)
        if title:
            tip = escape(" ".join(clean(title, 400).split()))
            self._parts.append(f"<{name}{shown}><title>{tip}</title></{name}>")
        else:
            self._parts.append(f"<{name}{shown}/>")


def _attributes(attributes: dict[str, float | str]) -> str:
    return "".join(
        f' {name}="{escape(value) if isinstance(value, str) else _number(value)}"'
        for name, value in attributes.items()
    )


def _number(value: float) -> str:
    """One digit behind the point, and none where it is 0: the same on every machine."""
    text = f"{value:.1f}"
    return text.removesuffix(".0") if text != "-0.0" else "0"
