"""Scripts with placeholders, which a shell would take apart: `--tp {{ .Values.tp }}`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from configurator.readers.pieces import Builder, Places
from configurator.readers.placeholders import TEMPLATE
from configurator.readers.processes import ScriptRunner
from configurator.readers.reading import Invocations
from configurator.words import Invocation, Setting, Span, Word, joined

_MARK = "configurator_placeholder_{}_end"
_MARKED = re.compile(r"configurator_placeholder_(\d+)_end")


def templated(run: ScriptRunner) -> ScriptRunner:
    """The same runner for scripts with placeholders, which a shell would take apart."""

    def marking(script: Word, given: Mapping[str, str], env: Mapping[str, Setting]) -> Invocations:
        marked, originals = _marked(script)
        found = run(marked, given, env)
        if not originals:
            return found
        back = tuple(_restored(one, originals) for one in found.found)
        return replace(found, found=back)

    return marking


def _marked(script: Word) -> tuple[Word, list[str]]:
    builder, at = Builder(script), 0
    originals: list[str] = []
    for match in TEMPLATE.finditer(script.text):
        if match.start() > at:
            builder.keep(at, match.start())
        builder.put(_MARK.format(len(originals)), match.start())
        originals.append(match[0])
        at = match.end()
    if not originals:
        return script, originals
    if at < len(script.text):
        builder.keep(at, len(script.text))
    return replace(builder.finish(), unknown=script.unknown), originals


def _restored(invocation: Invocation, originals: list[str]) -> Invocation:
    env = {
        name: replace(one, value=None) if one.value and _MARKED.search(one.value) else one
        for name, one in invocation.env.items()
    }
    words = tuple(_original(word, originals) for word in invocation.words)
    conditions = tuple(_text(one, originals) for one in invocation.conditions)
    image = invocation.image and _text(invocation.image, originals)
    return replace(invocation, words=words, env=env, conditions=conditions, image=image)


def _original(word: Word, originals: list[str]) -> Word:
    parts, at, places = [], 0, Places(word)
    for match in _MARKED.finditer(word.text):
        if match.start() > at:
            parts.append(places.piece(at, match.start()))
        text = _text(match[0], originals)
        parts.append(Word(text, (Span(0, places.at(match.start())),)))
        at = match.end()
    if not parts:
        return word
    if at < len(word.text):
        parts.append(places.piece(at, len(word.text)))
    return replace(joined(parts), unknown=True)


def _text(text: str, originals: list[str]) -> str:
    return _MARKED.sub(lambda match: originals[int(match[1])], text)
