"""Requested, resolved, built: one row for each argument or fact, rows that differ first."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from configurator.deployment import Deployment
from configurator.engine.catalogue import Catalogue
from configurator.evidence.model import Head, ModelReport, Replica, Report
from configurator.report.html_text import natural, numbers, shown
from configurator.verdicts import Answer, Verdict

Mark = Literal["refuted", "differs", "reads differently", "not shown", "same"]
_ORDER: tuple[Mark, ...] = ("refuted", "differs", "reads differently", "not shown", "same")
_WORDS = 200
_MOST_DRAFTS = 4


@dataclass(frozen=True, slots=True)
class Row:
    """One argument or fact; an empty cell is one of which there is no evidence."""

    name: str
    requested: str
    resolved: str
    built: str
    mark: Mark


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of replicas that are alike in all of them."""

    replicas: str
    """Their indices as text; empty when there is one replica only."""
    rows: tuple[Row, ...]

    @property
    def same(self) -> list[Row]:
        """Rows without a contradiction."""
        return [row for row in self.rows if row.mark == "same"]

    @property
    def not_shown(self) -> list[Row]:
        """Rows of which only the request is known."""
        return [row for row in self.rows if row.mark == "not shown"]

    @property
    def other(self) -> list[Row]:
        """Rows to look at."""
        return [row for row in self.rows if row.mark not in ("same", "not shown")]


def tables(
    replicas: Iterable[Replica],
    verdicts: Iterable[Verdict],
    catalogues: dict[int, Catalogue | None],
    deployment: Deployment | None,
) -> list[Table]:
    """One table for each set of replicas that have the same rows; empty ones left out."""
    replicas = list(replicas)
    refuted = {
        (seen.replica, seen.subject)
        for verdict in verdicts
        if verdict.answer is Answer.REFUTED
        for seen in verdict.evidence
        # What lies below the rung of the verdict was seen too, but does not decide it.
        if seen.source == "server_info" and seen.rung is verdict.rung
    }
    alike: dict[tuple[Row, ...], list[int]] = {}
    for replica in replicas:
        named = {subject for index, subject in refuted if index in (None, replica.index)}
        rows = _rows(replica, named, catalogues.get(replica.index), deployment)
        if rows:
            alike.setdefault(rows, []).append(replica.index)
    several = len(replicas) > 1
    return [Table(numbers(indices) if several else "", rows) for rows, indices in alike.items()]


def _rows(
    replica: Replica, refuted: set[str], catalogue: Catalogue | None, deployment: Deployment | None
) -> tuple[Row, ...]:
    info = replica.server_info or replica.server_info_startup
    wanted: dict[str, dict[str, Any]] = {}
    for who, arguments in (
        ("command", replica.requested.items()), ("profile", _of_profile(deployment))
    ):  # fmt: skip
        for name, value in arguments:
            wanted.setdefault(_field(name, info or {}, catalogue), {})[who] = value
    built = {name: _built(replica.reports, look) for name, look in _BUILT.items()}
    fields = [name for name in built if info is not None and name in info]
    rows = [
        _row(name, wanted.get(name, {}), info, built.get(name, []), refuted, catalogue)
        for name in dict.fromkeys([*wanted, *fields])
    ]
    rows += [
        _fact(name, values)
        for name, values in (
            *((name, built[name]) for name in built if name not in fields and name not in wanted),
            *((name, _built(replica.reports, look)) for name, look in _FACTS.items()),
        )
        if values
    ]
    rows.sort(key=lambda row: (_ORDER.index(row.mark), natural(row.name)))
    return tuple(rows)


def _of_profile(deployment: Deployment | None) -> Iterator[tuple[str, Any]]:
    for arg in deployment.args.values() if deployment else ():
        if isinstance(arg.value, str | int | float | bool | tuple):
            value = list(arg.value) if isinstance(arg.value, tuple) else arg.value
            yield arg.name.replace("-", "_"), value


def _field(name: str, info: dict[str, Any], catalogue: Catalogue | None) -> str:
    """The field of /server_info that an argument's name, alias or prefix stands for."""
    if name in info or catalogue is None:
        return name
    found = catalogue.resolve(name.replace("_", "-"))
    spellings = [
        spelling.replace("-", "_")
        for flag in (found.flags if found.kind != "ambiguous" else ())
        for spelling in (flag.name, *flag.aliases)
    ]
    return next((spelling for spelling in spellings if spelling in info), name)


def _row(
    name: str, wanted: dict[str, Any], info: dict[str, Any] | None,
    built: list[tuple[str, list[int | None]]], refuted: set[str], catalogue: Catalogue | None,
) -> Row:  # fmt: skip
    asked = {who: shown(value, name, _WORDS) for who, value in wanted.items()}
    first, last = next(iter(asked.values()), ""), next(reversed(asked.values()), "")
    agree = _same(first, last)
    known = info is not None and name in info
    resolved = shown(info[name], name, _WORDS) if info is not None and known else ""
    texts = [text for text, _ in built]
    mark: Mark = "same"
    if name in refuted:
        mark = "refuted"
    elif len(built) > 1 or _contradicts(name, resolved, texts, catalogue):
        mark = "differs"
    elif not known and not built:
        mark = "not shown"
    elif not agree or (known and any(not _same(text, resolved) for text in asked.values())):
        mark = "reads differently"
    told = first if agree else "; ".join(f"{who}: {text}" for who, text in asked.items())
    return Row(name, told, resolved, _cell(built), mark)


def _contradicts(
    name: str, resolved: str, built: list[str], catalogue: Catalogue | None
) -> bool:  # fmt: skip
    """Another choice of the same option was built than the one that was resolved."""
    flag = catalogue.flag(name.replace("_", "-")) if catalogue else None
    choices = {choice.lower() for choice in flag.choices} if flag else set()
    one = resolved.lower()
    if one in ("auto", "null", "") or one not in choices:
        return False
    parts = {part.split(" ")[0] for text in built for part in text.lower().split(", ")}
    return any(part in choices and part != one for part in parts)


def _fact(name: str, built: list[tuple[str, list[int | None]]]) -> Row:
    return Row(name, "", "", _cell(built), "differs" if len(built) > 1 else "same")


def _cell(built: list[tuple[str, list[int | None]]]) -> str:
    if len(built) == 1:
        return built[0][0]
    return "; ".join(f"{text} ({_ranks(ranks)})" for text, ranks in built)


def _ranks(ranks: list[int | None]) -> str:
    known = [rank for rank in ranks if rank is not None]
    word = "rank" if len(set(known)) == 1 else "ranks"
    return f"{word} {numbers(known)}" if known else "rank not known"


def _same(left: str, right: str) -> bool:
    if left.lower().rstrip("/") == right.lower().rstrip("/") or left.lower() == "auto":
        return True
    try:
        return math.isclose(float(left), float(right), rel_tol=1e-9)
    except ValueError:
        return False


def _built(
    reports: Iterable[Report], look: Callable[[Report], str]
) -> list[tuple[str, list[int | None]]]:
    """What the ranks report, and which of them; nothing where none says anything."""
    found: dict[str, list[int | None]] = {}
    for report in reports:
        text = look(report)
        if text:
            found.setdefault(text, []).append(report.rank)
    return list(found.items())


def _of_target(look: Callable[[ModelReport], str]) -> Callable[[Report], str]:
    return lambda report: look(report.target) if report.target is not None else ""


def _of_drafts(look: Callable[[ModelReport, Report], str]) -> Callable[[Report], str]:
    def every(report: Report) -> str:
        texts = dict.fromkeys(look(draft, report) for draft in report.drafts[:_MOST_DRAFTS])
        return "; ".join(text for text in texts if text)

    return every


def _text(value: object) -> str:
    return "" if value is None or value == "" else shown(value, longest=_WORDS)


def _runners(model: ModelReport) -> str:
    """`humming (12 layers), triton (3 layers: 3, 7, 9)`."""
    layers: dict[str, list[str]] = {}
    for layer in model.moe_layers:
        layers.setdefault(layer.runner or "not known", []).append(layer.name)
    if len(layers) <= 1:
        return shown(next(iter(layers), ""), longest=_WORDS)
    parts = []
    for runner, names in sorted(layers.items(), key=lambda item: (-len(item[1]), item[0])):
        listed = ", ".join(names[:4]) + (" and more" if len(names) > 4 else "")
        parts.append(f"{runner} ({len(names)} of {len(model.moe_layers)} layers: {listed})")
    return shown(", ".join(parts), longest=2 * _WORDS)


def _head(head: Head | None) -> str:
    if head is None:
        return ""
    applied = {True: "applied", False: "not applied", None: ""}[head.quant_method_applied]
    scales = f"scales {', '.join(sorted(head.scales))}" if head.scales else "no scale"
    shape = " by ".join(map(str, head.shape))
    method = " ".join(part for part in (head.quant_method, applied) if part)
    return shown(", ".join(p for p in (head.dtype, shape, method, scales) if p), longest=_WORDS)


def _sharing(draft: ModelReport, _report: Report) -> str:
    sharing = draft.sharing
    if sharing is None:
        return ""
    if sharing.same_module:
        return "the target's module itself"
    parts = [
        f"{word}: {'same' if value else 'its own'}"
        for word, value in (("weight", sharing.same_weight), ("scales", sharing.same_scales))
        if value is not None
    ]
    if sharing.same_content is not None and not sharing.same_weight:
        parts.append(f"content: {'equal' if sharing.same_content else 'other'}")
    return ", ".join(parts)


def _graphs(model: ModelReport) -> str:
    sizes = model.graph_batch_sizes
    if sizes is None:
        return ""
    return shown(numbers(sizes), longest=_WORDS) if sizes else "none captured"


_BUILT: dict[str, Callable[[Report], str]] = {
    "moe_runner_backend": _of_target(_runners),
    "kv_cache_dtype": _of_target(lambda model: _text(model.kv_cache_dtype)),
    "decode_attention_backend": _of_target(lambda model: _text(model.decode_attention)),
    "prefill_attention_backend": _of_target(lambda model: _text(model.prefill_attention)),
    "quantization": _of_target(lambda model: _text(model.quantization)),
    "speculative_algorithm": _of_drafts(lambda draft, _: _text(f"draft {draft.model_class}")),
}
"""What the in-engine report says of fields of /server_info."""
_FACTS: dict[str, Callable[[Report], str]] = {
    "model class": _of_target(lambda model: _text(model.model_class)),
    "LM head": _of_target(lambda model: _head(model.head)),
    "decode graphs, batch sizes": _of_target(_graphs),
    "draft: LM head": _of_drafts(lambda draft, _: _head(draft.head)),
    "draft: LM head against target": _of_drafts(_sharing),
    "draft: MoE runner": _of_drafts(lambda draft, _: _runners(draft)),
    "draft: graphs, batch sizes": _of_drafts(lambda draft, _: _graphs(draft)),
}
"""What only the in-engine report says."""
