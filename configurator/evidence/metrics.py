"""Prometheus text, as far as probes need it: names, labels, values."""

from __future__ import annotations

import re

from configurator.evidence.model import Sample

_LINE = re.compile(r"(?P<name>[A-Za-z_:][\w:]*)(?:\{(?P<labels>.*)\})?\s+(?P<value>\S+)")
_LABEL = re.compile(r'(\w+)="((?:\\.|[^"\\])*)"')


def parse_metrics(text: str) -> tuple[Sample, ...]:
    """Every sample of an exposition; lines that are none are passed over."""
    samples = []
    for line in text.splitlines():
        match = None if line.startswith("#") else _LINE.match(line)
        if match is None:
            continue
        try:
            value = float(match["value"])
        except ValueError:
            continue
        labels = dict(_LABEL.findall(match["labels"] or ""))
        samples.append(Sample(match["name"], labels, value))
    return tuple(samples)
