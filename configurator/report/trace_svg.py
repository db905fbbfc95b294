"""One step of every trace as a timeline by family: a small picture without a library.

The same input gives the same bytes. Every row is one kind of step, in the time of the GPU from its
first kernel on; rows of all files have one scale, so that a shorter step looks shorter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from configurator.evidence.trace_model import TraceStep
from configurator.families import OTHER, Families
from configurator.report.findings import printable
from configurator.report.trace_text import Named, counted, named, steps_in_order

_COLOURS = (
    "#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2", "#97bbf5",
    "#9c6b4e", "#b8a100", "#00798c", "#7f0000",
)  # fmt: skip
_REST, _IDLE, _INK, _FAINT = "#9aa0a6", "#eceff1", "#202124", "#5f6368"
_WIDTH, _LEFT, _RIGHT, _TOP = 1080, 16, 16, 64
_BAR, _LANE, _GAP, _TITLE = 22, 7, 34, 30
_LEGEND_ROW, _LEGEND_COLUMNS = 18, 4
_PREFILL = ("prefill", "other")
_MOST_ROWS, _LONGEST, _LEAST_US = 12, 90, 1.0


@dataclass(frozen=True, slots=True)
class _Row:
    """One kind of step of one file."""

    title: str
    """Empty, or the name of the file, of its first row."""
    step: TraceStep


def picture(traces: Named, families: Families) -> str:
    """The SVG of the steps that give tokens, or of all where there are none.

    Raises:
        ValueError: no trace has a step with kernels.
    """
    rows = _rows(traces)
    if not rows:
        raise ValueError("no trace has a step with kernels of a GPU")
    longest = max(_LEAST_US, *(_end(row.step) for row in rows))
    colours = _colours(rows, families)
    body: list[str] = []
    y = _TOP
    for row in rows:
        if row.title:
            y += _TITLE
            body.append(_text(_LEFT, y - 10, row.title, size=14, weight="600"))
        body += _drawn(row.step, y, longest, colours, families)
        y += 16 + _BAR + _GAP - 16
    body += _axis(y - 10, longest)
    y += 24
    legend = _legend(rows, colours, families)
    height = y + _LEGEND_ROW * -(-len(legend) // _LEGEND_COLUMNS) + 16
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" font-family="system-ui, sans-serif">',
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        _text(_LEFT, 26, "One step on the GPU, by kernel family", size=17, weight="600"),
        _text(_LEFT, 46, "The step that took the median of time; grey: nothing ran; a line below "
              "the kernels: a graph replayed them", size=12, colour=_FAINT),
    )  # fmt: skip
    return "\n".join([*head, *body, *_drawn_legend(legend, y), "</svg>"]) + "\n"


def _rows(traces: Named) -> list[_Row]:
    found: list[_Row] = []
    for name, trace in traces:
        steps = [step for step in steps_in_order(trace) if step.sample and not step.within]
        wanted = [step for step in steps if step.role not in _PREFILL] or steps
        device = f", {trace.device}" if trace.device else ""
        shown = name if len(name) <= _LONGEST else f"...{name[-_LONGEST:]}"
        for index, step in enumerate(wanted[:_MOST_ROWS]):
            found.append(_Row(printable(f"{shown}{device}") if not index else "", step))
    return found


def _end(step: TraceStep) -> float:
    return max(ran.start_us + ran.dur_us for ran in step.sample)


def _colours(rows: Sequence[_Row], families: Families) -> dict[str, str]:
    """A colour for each family, the ones with the most time first; the rest has one together."""
    times: dict[str, float] = {}
    for row in rows:
        for ran in row.step.sample:
            name = families.of(ran.name).name
            times[name] = times.get(name, 0.0) + ran.dur_us
    order = sorted(times, key=lambda name: (name == OTHER, -times[name], name))
    fresh = iter(_COLOURS)
    return {name: _REST if name == OTHER else next(fresh, _REST) for name in order}


def _drawn(
    step: TraceStep, y: float, longest: float, colours: dict[str, str], families: Families
) -> Iterator[str]:
    """The label of a row, its ground, and every kernel on it."""
    scale = (_WIDTH - _LEFT - _RIGHT) / longest
    end = _end(step)
    yield _text(_LEFT, y + 8, _label(step), size=12)
    top = y + 14
    yield _rect(_LEFT, top, end * scale, _BAR, _IDLE)
    for ran in step.sample:
        family = families.of(ran.name).name
        x, width = _LEFT + ran.start_us * scale, max(0.4, ran.dur_us * scale)
        height = _BAR - _LANE if ran.is_copy else _BAR
        title = printable(f"{family}: {ran.name[:120]}, {ran.dur_us:g} us")
        yield _rect(x, top + _BAR - height, width, height, colours[family], title)
    for begin, stop in _replayed(step):
        x = _LEFT + begin * scale
        yield _rect(x, top + _BAR + 2, max(0.4, (stop - begin) * scale), 2, _INK)


def _label(step: TraceStep) -> str:
    return (
        f"{step.role}: {named(step)}, {counted(step.launches)} launches "
        f"({counted(step.graph_launches)} of graphs), {counted(step.kernels)} kernels, "
        f"{step.gpu_us:,.0f} us of kernels in {step.span_us:,.0f} us, {step.idle_us:,.0f} us idle"
    )


def _replayed(step: TraceStep) -> Iterator[tuple[float, float]]:
    """Where kernels of graphs follow each other without others between them."""
    begin = stop = -1.0
    for ran in step.sample:
        if ran.by_graph:
            begin = ran.start_us if begin < 0 else begin
            stop = max(stop, ran.start_us + ran.dur_us)
        elif begin >= 0:
            yield begin, stop
            begin = stop = -1.0
    if begin >= 0:
        yield begin, stop


def _axis(y: float, longest: float) -> Iterator[str]:
    """Five marks of round microseconds."""
    scale = (_WIDTH - _LEFT - _RIGHT) / longest
    every = _round_number(longest / 5)
    yield _rect(_LEFT, y, _WIDTH - _LEFT - _RIGHT, 1, _FAINT)
    mark = 0.0
    while mark <= longest:
        x = _LEFT + mark * scale
        yield _rect(x, y, 1, 5, _FAINT)
        anchor = "start" if not mark else "middle" if x < _WIDTH - 60 else "end"
        yield _text(x, y + 18, f"{mark:,.6g} us", size=11, colour=_FAINT, anchor=anchor)
        mark += every


def _round_number(value: float) -> float:
    """The next of 1, 2, 5, 10, 20 and so on."""
    power = 1.0
    while power * 10 <= value:
        power *= 10
    while power > value:
        power /= 10
    return next((step * power for step in (1, 2, 5) if step * power >= value), 10 * power)


def _legend(
    rows: Sequence[_Row], colours: dict[str, str], families: Families
) -> list[tuple[str, str]]:
    """Colours and what they stand for, with its time in the steps that are shown."""
    times = dict.fromkeys(colours, 0.0)
    for row in rows:
        for ran in row.step.sample:
            times[families.of(ran.name).name] += ran.dur_us
    own = [name for name in colours if colours[name] != _REST]
    found = [(colours[name], f"{name}, {times[name]:,.1f} us") for name in own]
    rest = [name for name in colours if colours[name] == _REST]
    if rest:
        names = ", ".join(rest[:2]) + (f" and {len(rest) - 2} more" if len(rest) > 2 else "")
        found.append((_REST, f"{names}, {sum(times[name] for name in rest):,.1f} us"))
    return found


def _drawn_legend(legend: Sequence[tuple[str, str]], y: float) -> Iterator[str]:
    width = (_WIDTH - _LEFT - _RIGHT) / _LEGEND_COLUMNS
    for index, (colour, text) in enumerate(legend):
        x = _LEFT + index % _LEGEND_COLUMNS * width
        at = y + index // _LEGEND_COLUMNS * _LEGEND_ROW
        yield _rect(x, at, 11, 11, colour)
        yield _text(x + 17, at + 10, printable(text), size=12)


def _rect(
    x: float, y: float, width: float, height: float, colour: str, title: str = ""
) -> str:  # fmt: skip
    inside = f"><title>{escape(title)}</title></rect>" if title else "/>"
    size = f'width="{width:.2f}" height="{height:.2f}"'
    return f'<rect x="{x:.2f}" y="{y:.2f}" {size} fill="{colour}"{inside}'


def _text(
    x: float, y: float, text: str, *, size: int, colour: str = _INK, weight: str = "400",
    anchor: str = "start",
) -> str:  # fmt: skip
    return (
        f'<text x="{x:.2f}" y="{y:.2f}" font-size="{size}" font-weight="{weight}" '
        f'text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'
    )
