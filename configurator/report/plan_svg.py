"""The picture of a plan: memory of a GPU, reads of a decode step, speed-up by speculation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from configurator.plan.model import Memory, Plan, Share
from configurator.report.plan_sheet import outcome
from configurator.report.plan_svg_step import draw_speed_up, draw_step
from configurator.report.plan_values import amount, said, span
from configurator.report.svg import Canvas, wide

WIDTH = 760.0
LEFT = 24.0
_BAR = 34.0
_COLOURS = {
    "weights": "pl-blue", "draft": "pl-sky", "kv": "pl-orange", "state": "pl-green",
    "graphs": "pl-pink", "workspace": "pl-red", "reserve": "pl-grey", "free": "pl-free",
}  # fmt: skip
_ROW = 21.0


def plan_svg(plan: Plan, place: str, name: str = "plan") -> str:
    """The picture; a panel of which nothing is known says so instead.

    Args:
        plan: what to draw.
        place: the machine, for the title.
        name: what ids in it begin with.
    """
    canvas = Canvas(WIDTH)
    verdict = outcome(plan)
    canvas.text(LEFT, 32, plan.name, "pl-head", room=WIDTH - 2 * LEFT)
    word = verdict.word if verdict.word != "cannot be told" else "cannot be told whether it fits"
    canvas.text(LEFT, 54, f"{word}; {place}", room=WIDTH - 2 * LEFT)
    y = 92.0
    y = _draw_memory(canvas, plan, y)
    y = draw_step(canvas, plan.step, y + 34, LEFT, WIDTH - LEFT)
    if plan.step is not None and plan.step.curve:
        y = draw_speed_up(canvas, plan.step, y + 34, LEFT, WIDTH - LEFT)
    return canvas.document(y + 16, f"Plan of {plan.name}", described(plan), name)


def described(plan: Plan) -> str:
    """The same in a few sentences."""
    verdict = outcome(plan)
    parts = [f"{verdict.word}: {verdict.sentence}."]
    if plan.memory is not None:
        shares = ", ".join(f"{s.name} {said(s.size)}" for s in plan.memory.shares)
        parts.append(f"Memory of one GPU, {said(plan.memory.total)}: {shares}.")
    step = plan.step
    if step is not None:
        passes = ", ".join(f"{p.name} {said(p.time)} times {p.times}" for p in step.passes)
        known = f"takes {said(step.step)}" if step.step is not None else "is not known as a whole"
        parts.append(f"A decode step {known}: {passes}.")
        if step.per_token is not None:
            parts.append(f"A token takes {span(step.per_token)}.")
        if step.ratio is not None:
            parts.append(f"Speculation breaks even at {said(step.ratio)} accepted tokens a step.")
    return " ".join(parts)


@dataclass(frozen=True, slots=True)
class _Scale:
    """Bytes to the horizontal axis."""

    whole: float

    def at(self, value: float) -> float:
        return LEFT + (WIDTH - 2 * LEFT) * value / self.whole


def _draw_memory(canvas: Canvas, plan: Plan, y: float) -> float:
    memory = plan.memory
    if memory is None or memory.total.value <= 0:
        canvas.text(LEFT, y, "Memory: not known", "pl-head")
        canvas.text(LEFT, y + 22, outcome(plan).sentence, "pl-soft", room=WIDTH - 2 * LEFT)
        return y + 28
    canvas.text(LEFT, y, f"Memory of one GPU: {said(memory.total)}", "pl-head")
    filled = sum(share.size.value for share in memory.shares)
    scale = _Scale(max(memory.total.value, filled))
    top = y + 34
    places = list(_places(memory, scale))
    for share, x, end in places:
        kind = f"{_COLOURS[share.kind]} pl-edge"
        canvas.rect(x, top, end - x, _BAR, kind, f"{share.name} {said(share.size)}")
    _draw_limits(canvas, memory, scale, top)
    for number, (share, x, end) in enumerate(places, 1):
        if end - x >= wide(str(number), "pl-key") + 4:
            canvas.text((x + end) / 2, top + _BAR / 2 + 4, str(number), _key(share), "middle")
    return _draw_legend(canvas, memory, top + _BAR + 26)


def _places(memory: Memory, scale: _Scale) -> Iterator[tuple[Share, float, float]]:
    """Each share with where it begins and ends."""
    begin = 0.0
    for share in memory.shares:
        yield share, scale.at(begin), scale.at(begin + share.size.value)
        begin += share.size.value


def _key(share: Share) -> str:
    """The colour of a number on the colour of a share."""
    kind = _COLOURS[share.kind]
    light = " pl-key-light" if kind == "pl-blue" else ""
    return "pl-soft" if kind == "pl-free" else f"pl-key{light}"


def _draw_limits(canvas: Canvas, memory: Memory, scale: _Scale, top: float) -> None:
    """The end of what there is where more is wanted, and what the profile gives to the engine."""
    if scale.whole > memory.total.value:
        x = scale.at(memory.total.value)
        canvas.rect(x, top, WIDTH - LEFT - x, _BAR, "pl-over", "more than there is")
        canvas.line(x, top - 6, x, top + _BAR + 8, "pl-dash")
        canvas.text(x - 4, top - 10, f"{said(memory.total)} is all there is", "pl-text", "end")
        return
    if memory.asked_fraction is None:
        return
    # The engine takes its share of what is free before it loads.
    others = sum(share.size.value for share in memory.shares if share.kind == "reserve")
    x = scale.at(memory.asked_fraction * (memory.total.value - others))
    canvas.line(x, top - 6, x, top + _BAR + 8, "pl-dash")
    text = f"--mem-fraction-static {memory.asked_fraction:g}"
    middle = min(max(x, LEFT + wide(text) / 2), WIDTH - LEFT - wide(text) / 2)
    canvas.text(middle, top - 10, text, "pl-text", "middle")


def _draw_legend(canvas: Canvas, memory: Memory, y: float) -> float:
    """Two columns, read downwards."""
    half = (len(memory.shares) + 1) // 2
    room = WIDTH / 2 - LEFT - 34
    for index, share in enumerate(memory.shares):
        x = LEFT + (WIDTH / 2 - LEFT / 2) * (index // half)
        row = y + _ROW * (index % half)
        canvas.rect(x, row - 12, 20, 15, f"{_COLOURS[share.kind]} pl-edge")
        canvas.text(x + 10, row, str(index + 1), _key(share), "middle")
        text = f"{share.name}  {said(share.size)}"
        if wide(text) > room:
            text = f"{share.name}  {amount(share.size.value, 'B')}"
        canvas.text(x + 28, row, text, room=room)
    return y + _ROW * (half - 1) + 4
