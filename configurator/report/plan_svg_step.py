"""Two panels of a plan's picture: what a decode step reads, and what speculation gains."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from configurator.plan.model import Pass, Step
from configurator.report.plan_blocks_step import pass_name
from configurator.report.plan_sheet import at_acceptance, passes_of, plain_of
from configurator.report.plan_values import amount, said
from configurator.report.svg import Canvas

_ROW = 21.0
_LABELS = 252.0
_VALUES = 120.0
"""Room for the last value behind its bar."""
_MOST_READS = 12
_SMALL = 0.01
"""Share of a pass below which a read is drawn together with others."""
_COLOURS = {"plain decode": "pl-grey", "draft": "pl-sky", "verify": "pl-blue"}
_TALL = 230.0


def draw_step(canvas: Canvas, step: Step | None, y: float, left: float, right: float) -> float:
    """Reads by class, one after the other as the passes make them; where the panel ends."""
    if step is None:
        canvas.text(left, y, "Decode step: not known", "pl-head")
        return y + 8
    passes, plain = passes_of(step), plain_of(step)
    read = sum(_bytes(one) * one.times for one in passes)
    what = f"batch {step.batch} at {step.context:,} tokens"
    head = f"One decode step, {what}: {amount(read, 'B')} in {said(step.step)}"
    if step.step is None:
        head = f"Decode, {what}, without the draft: its passes are not known"
    canvas.text(left, y, head, "pl-head", room=right - left)
    most = max(read, _bytes(plain) if plain is not None else 0.0)
    scale = (right - left - _LABELS - _VALUES) / most if most > 0 else 0.0
    row = _draw_passes(canvas, passes, left, y + 26, scale)
    if plain is not None:
        row = _draw_passes(canvas, (plain,), left, row + 8, scale)
    canvas.line(left + _LABELS, y + 14, left + _LABELS, row - 14, "pl-axis")
    return row - 12


def _draw_passes(
    canvas: Canvas, passes: tuple[Pass, ...], left: float, row: float, scale: float
) -> float:
    """Every pass with its reads, each beginning where the one before ended; the next row."""
    begin = 0.0
    for one in passes:
        canvas.text(left, row, pass_name(one), room=_LABELS - 8)
        each = " each" if one.times > 1 else ""
        canvas.text(left + _LABELS + 6, row, f"{said(one.time)}{each}", "pl-soft")
        row += _ROW
        for name, size in _reads(one):
            x = left + _LABELS + begin * scale
            length = max(size * one.times * scale, 1)
            text = f"{amount(size, 'B')}{f' x {one.times}' if one.times > 1 else ''}"
            canvas.text(left + 14, row, name, "pl-soft", room=_LABELS - 22)
            canvas.rect(x, row - 12, length, 15, _COLOURS[one.name], f"{name} {text}")
            canvas.text(x + length + 6, row, text)
            begin += size * one.times
            row += _ROW
    return row


def _bytes(one: Pass) -> float:
    return sum(part.size.value for part in one.reads)


def _reads(one: Pass) -> Iterator[tuple[str, float]]:
    """The largest as they come; what is too small to be seen, or beyond the rows, as one."""
    least = _SMALL * _bytes(one)
    seen = [part for part in one.reads if part.size.value >= least]
    kept = sorted(seen, key=lambda part: -part.size.value)[:_MOST_READS]
    rest = [part for part in one.reads if part not in kept]
    for part in one.reads:
        if part in kept:
            yield part.name, part.size.value
    if rest:
        yield f"{len(rest)} more", sum(part.size.value for part in rest)


@dataclass(frozen=True, slots=True)
class _Axes:
    left: float
    right: float
    top: float
    bottom: float
    first: float
    last: float
    highest: float

    def x(self, accepted: float) -> float:
        share = (accepted - self.first) / (self.last - self.first)
        return self.left + share * (self.right - self.left)

    def y(self, speed_up: float) -> float:
        return self.bottom - speed_up / self.highest * (self.bottom - self.top)


def draw_speed_up(canvas: Canvas, step: Step, y: float, left: float, right: float) -> float:
    """The band of the speed-up over acceptance, break-even, and the acceptance that was taken."""
    canvas.text(left, y, "Speed-up by speculation over plain decode", "pl-head")
    curve = step.curve
    marks = _marks(step)
    top = y + 20 + _ROW * len(marks)
    # With one point there is no band to draw.
    last = max(curve[-1].accepted, curve[0].accepted + 1)
    axes = _Axes(
        left + 44, right - 8, top, top + _TALL, curve[0].accepted, last,
        _highest(max(point.high for point in curve)),
    )  # fmt: skip
    _draw_grid(canvas, axes)
    band = [(axes.x(p.accepted), axes.y(p.high)) for p in curve]
    band += [(axes.x(p.accepted), axes.y(p.low)) for p in reversed(curve)]
    canvas.path(band, "pl-band", closed=True)
    canvas.path([(axes.x(p.accepted), axes.y(p.value)) for p in curve], "pl-curve")
    for row, mark in enumerate(marks):
        _draw_mark(canvas, step, axes, mark, y + 24 + _ROW * row)
    canvas.text(
        (axes.left + axes.right) / 2, axes.bottom + 38, "tokens accepted a step, bonus included",
        "pl-soft", "middle",
    )  # fmt: skip
    return axes.bottom + 44


def _highest(value: float) -> float:
    return max(1.5, math.ceil(value * 2 + 0.2) / 2)


def _draw_grid(canvas: Canvas, axes: _Axes) -> None:
    every = 0.5 if axes.highest <= 4 else math.ceil(axes.highest / 8)
    for index in range(int(axes.highest / every) + 1):
        value = index * every
        y = axes.y(value)
        canvas.line(axes.left, y, axes.right, y, "pl-axis" if value in (0, 1) else "pl-grid")
        canvas.text(axes.left - 6, y + 4, f"{value:g} x", "pl-soft", "end")
    whole = range(math.ceil(axes.first), math.floor(axes.last) + 1)
    for value in whole[:: max(1, math.ceil(len(whole) / 12))]:
        canvas.text(axes.x(value), axes.bottom + 18, str(value), "pl-soft", "middle")


@dataclass(frozen=True, slots=True)
class _Mark:
    """A vertical line of the picture, with what it stands for."""

    at: float
    text: str
    kind: str


def _marks(step: Step) -> list[_Mark]:
    marks = []
    if step.ratio is not None:
        text = f"breaks even at {said(step.ratio)} accepted"
        marks.append(_Mark(step.ratio.value, text, "pl-dash"))
    if step.accepted is not None:
        point = at_acceptance(step.curve, step.accepted.value)
        text = f"at {step.accepted.value:.3g} accepted: {point.low:.2f} to {point.high:.2f} x"
        marks.append(_Mark(step.accepted.value, text, "pl-mark"))
    return marks


def _draw_mark(canvas: Canvas, step: Step, axes: _Axes, mark: _Mark, y: float) -> None:
    """The line, and its name above the picture, where nothing can cross it."""
    within = axes.first <= mark.at <= axes.last
    canvas.line(axes.left, y - 4, axes.left + 28, y - 4, mark.kind)
    canvas.text(axes.left + 36, y, mark.text + ("" if within else " (outside of the picture)"))
    if not within:
        return
    x = axes.x(mark.at)
    canvas.line(x, axes.top, x, axes.bottom, mark.kind)
    if mark.kind == "pl-mark":
        canvas.dot(x, axes.y(at_acceptance(step.curve, mark.at).value), 4, "pl-blue pl-edge")
