"""Acceptance as a picture: verify steps by the tokens they committed, or decode lines of the log.

Only numbers go into the picture. Whether they prove anything is the probe's word.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from configurator.deployment import Expectation
from configurator.evidence.model import Exchange, Json, Replica
from configurator.report.html_text import clean, counted

_ACCEPT_LEN = re.compile(r"Decode batch\b.{0,2000}?accept len: (\d{1,6}(?:\.\d{1,6})?)")
_LOOKED_AT = 4096
"""Characters of a line: the pattern would look for ages at the longest of them."""
_WIDEST = 64
"""Tokens a step beyond which a histogram is a broken counter."""
_BIN = 0.25
_MOST_STEPS = 10**15
LEFT, RIGHT, TOP, BOTTOM = 50.0, 12.0, 50.0, 46.0
WIDTH, HEIGHT = 400.0, 250.0
_LABEL = 20.0
"""Half the width of a label."""
_TALL = HEIGHT - TOP - BOTTOM
_MOST_REQUESTS = 24


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar, in units of the picture."""

    x: float
    y: float
    width: float
    height: float
    label: str
    """Share, over the bar."""
    title: str
    label_x: float
    anchor: str
    """`middle`, or `end` where a line would run through the label."""


@dataclass(frozen=True, slots=True)
class Tick:
    """A number on an axis."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Line:
    """A vertical line with its name: the mean, the floor, the break-even."""

    x: float
    text: str
    kind: str
    anchor: str
    """`start`, or `end` where the name would leave the picture."""
    y: float
    """Where the name stands."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A histogram with everything that is drawn, and a sentence that says the same."""

    title: str
    replica: int | None
    bars: tuple[Bar, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    lines: tuple[Line, ...]
    x_label: str
    y_label: str
    caption: str
    data: tuple[tuple[str, int, str], ...]
    """What each bar stands for, its count, its share."""
    requests: tuple[tuple[str, str, str, str], ...] = ()
    """File, kind of text, steps and acceptance length of every request."""
    more_requests: int = 0


@dataclass(frozen=True, slots=True)
class _Request:
    name: str
    kind: str
    histogram: list[int]
    proposed: int
    """Drafts that each verify step could have accepted."""

    @property
    def steps(self) -> int:
        return sum(self.histogram)

    @property
    def length(self) -> float:
        return 1 + sum(i * n for i, n in enumerate(self.histogram)) / self.steps


def charts(replicas: Iterable[Replica], expectations: Iterable[Expectation]) -> list[Chart]:
    """A picture for each replica whose evidence counts accepted drafts."""
    replicas = list(replicas)
    marks = dict(_marks(expectations))
    found = []
    for replica in replicas:
        index = replica.index if len(replicas) > 1 else None
        chart = _of_requests(replica, index, marks) or _of_log(replica, index, marks)
        if chart is not None:
            found.append(chart)
    return found


def _marks(expectations: Iterable[Expectation]) -> Iterator[tuple[str, float]]:
    for expectation in expectations:
        for name, value in (
            ("floor", expectation.floor), ("break-even", expectation.verify_cost_ratio)
        ):  # fmt: skip
            if value is not None and math.isfinite(value):
                yield name, value


def _requests(exchanges: Iterable[Exchange]) -> Iterator[_Request]:
    """Requests that are not of the warm-up, with a histogram that can be one."""
    for exchange in exchanges:
        if exchange.kind == "warm-up":
            continue
        answers = exchange.response if isinstance(exchange.response, list) else [exchange.response]
        for answer in answers:
            meta = answer.get("meta_info") if isinstance(answer, dict) else None
            if not isinstance(meta, dict):
                continue
            histogram = _histogram(meta.get("spec_correct_drafts_histogram"))
            if histogram is not None:
                proposed = _a_step(meta, sum(histogram))
                yield _Request(clean(exchange.name, 80), exchange.kind, histogram, proposed)


def _a_step(meta: dict[str, Json], steps: int) -> int:
    drafts = meta.get("spec_num_proposed_drafts")
    if not isinstance(drafts, int) or isinstance(drafts, bool) or drafts <= 0:
        return 0
    return min(_WIDEST - 1, drafts // steps)


def _histogram(data: Json) -> list[int] | None:
    whole = isinstance(data, list) and 0 < len(data) <= _WIDEST and all(
        isinstance(n, int) and not isinstance(n, bool) and 0 <= n < _MOST_STEPS for n in data
    )  # fmt: skip
    return data if whole and sum(data) > 0 else None


def _of_requests(replica: Replica, index: int | None, marks: dict[str, float]) -> Chart | None:
    requests = list(_requests(replica.exchanges))
    if not requests:
        return None
    width = max(max(len(request.histogram), 1 + request.proposed) for request in requests)
    counts = [
        sum(request.histogram[i] for request in requests if i < len(request.histogram))
        for i in range(width)
    ]
    steps = sum(counts)
    mean = sum((i + 1) * n for i, n in enumerate(counts)) / steps
    caption = (
        f"Mean acceptance length {mean:.2f} over {counted(steps, 'verify step')} of "
        f"{counted(len(requests), 'request')}; the warm-up is left out. A step commits the "
        "accepted drafts and one token of the target itself, so 1 is plain decoding."
    )
    rows = tuple(
        (r.name, r.kind, f"{r.steps}", f"{r.length:.2f}") for r in requests[:_MOST_REQUESTS]
    )
    shown, far = _picture([(i + 1.0, n) for i, n in enumerate(counts)], 1.0, mean, marks)
    return Chart(
        "Tokens a verify step", index, *shown, "tokens committed by one verify step",
        "share of verify steps", caption + far,
        tuple((str(i + 1), n, f"{n / steps:.1%}") for i, n in enumerate(counts)),
        rows, max(0, len(requests) - _MOST_REQUESTS),
    )  # fmt: skip


def _of_log(replica: Replica, index: int | None, marks: dict[str, float]) -> Chart | None:
    found = (_ACCEPT_LEN.match(line.message[:_LOOKED_AT]) for line in replica.log or ())
    values = [float(match[1]) for match in found if match and float(match[1]) <= _WIDEST]
    if not values:
        return None
    low = math.floor(min(values) / _BIN)
    slots = [0] * (math.floor(max(values) / _BIN) - low + 1)
    for value in values:
        slots[math.floor(value / _BIN) - low] += 1
    mean = sum(values) / len(values)
    caption = (
        f"No response counts drafts; this is “accept len” of {counted(len(values), 'decode line')} "
        f"of the log, {mean:.2f} on average. Lines may be of the warm-up or of other text: a hint, "
        "no proof."
    )
    bars = [((low + i) * _BIN + _BIN / 2, n) for i, n in enumerate(slots)]
    data = tuple(
        (f"{(low + i) * _BIN:g} to {(low + i + 1) * _BIN:g}", n, f"{n / len(values):.1%}")
        for i, n in enumerate(slots)
    )
    shown, far = _picture(bars, _BIN, mean, marks)
    return Chart(
        "Acceptance length of the log's decode lines", index, *shown,
        "accept len of a decode line", "share of decode lines", caption + far, data,
    )  # fmt: skip


_Picture = tuple[tuple[Bar, ...], tuple[Tick, ...], tuple[Tick, ...], tuple[Line, ...]]


@dataclass(frozen=True, slots=True)
class _Axis:
    """The horizontal axis: from which value to which."""

    low: float
    high: float

    @property
    def scale(self) -> float:
        return (WIDTH - LEFT - RIGHT) / (self.high - self.low)

    def at(self, value: float) -> float:
        return round(LEFT + (value - self.low) * self.scale, 1)

    def ticks(self) -> tuple[Tick, ...]:
        whole = range(math.ceil(self.low), math.floor(self.high) + 1)
        every = max(1, math.ceil(len(whole) / 12))
        return tuple(Tick(self.at(n), str(n)) for n in whole[::every])


def _picture(
    bars: list[tuple[float, int]], step: float, mean: float, marks: dict[str, float]
) -> tuple[_Picture, str]:
    """Bars at their middles on an axis that also holds the mean and every mark within reach.

    A mark far from everything would squeeze the bars: it is given in words instead.
    """
    first, last = bars[0][0] - step / 2, bars[-1][0] + step / 2
    near = {name: value for name, value in marks.items() if 0 <= value <= 2 * last + 2}
    far = "".join(
        f" The {name} {value:.3g} lies outside the picture."
        for name, value in marks.items()
        if name not in near
    )
    axis = _Axis(
        min([first, *(value - step / 4 for value in near.values())]),
        max([last, *(value + step / 4 for value in near.values())]),
    )
    y_ticks = tuple(
        Tick(round(HEIGHT - BOTTOM - _TALL * part / 4, 1), f"{25 * part} %") for part in range(5)
    )
    lines = tuple(_lines([("mean", mean), *near.items()], axis))
    return (tuple(_bars(bars, step, axis, lines)), axis.ticks(), y_ticks, lines), far


def _bars(
    bars: list[tuple[float, int]], step: float, axis: _Axis, lines: tuple[Line, ...]
) -> Iterator[Bar]:
    total = sum(count for _, count in bars)
    for middle, count in bars:
        tall = round(_TALL * count / total, 1)
        left, width = axis.at(middle - step * 0.42), round(step * 0.84 * axis.scale, 1)
        title = f"{middle:g}: {count} of {total}"
        top = round(HEIGHT - BOTTOM - tall, 1)
        at = axis.at(middle)
        crossing = [line.x for line in lines if abs(line.x - at) < _LABEL]
        place, anchor = (min(crossing) - 5, "end") if crossing else (at, "middle")
        yield Bar(left, top, width, tall, _share(count / total), title, round(place, 1), anchor)


def _lines(named: list[tuple[str, float]], axis: _Axis) -> Iterator[Line]:
    for row, (name, value) in enumerate(named):
        place = axis.at(value)
        anchor = "end" if place > WIDTH / 2 else "start"
        yield Line(place, f"{name} {value:.3g}", name, anchor, 13.0 + 15 * row)


def _share(share: float) -> str:
    if share == 0:
        return ""
    return "<1 %" if share < 0.005 else f"{share:.0%}".replace("%", " %")
