"""The events of a profiler trace one at a time: kineto JSON of any length in bounded memory.

A trace is one object whose `traceEvents` is an array of hundreds of thousands of small objects, or
that array alone. Text is decoded in pieces, and the C scanner of the `json` module takes one event
after another from the piece at hand; only what is cut off at its end waits for the next piece.
"""

from __future__ import annotations

import codecs
import contextlib
import gzip
import json
import os
import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, cast

from configurator.errors import ConfiguratorError
from configurator.regular import check_regular, why_unread

PIECE = 1 << 20
"""Bytes that are read at a time."""
MOST_BYTES = 2 << 30
"""A trace that unpacks to more is refused, and with it whatever was packed to do harm."""
MOST_VALUES = 8_000_000
"""Events, at most: about as many as a trace of `MOST_BYTES` has; a file of mere numbers would
hold a hundred times as many."""
MOST_VALUE = 8 << 20
"""Characters of one event, or of one of the few values beside the events."""

KEPT = ("deviceProperties", "distributedInfo")
"""What is kept of the values beside the events."""

_SPACE = re.compile(r"[ \t\n\r]*")
_GZIP = b"\x1f\x8b"
_AGAIN = "record it again, with at most 20 steps"


class _CutError(Exception):
    """The text at hand ends within a value."""


class _WrongError(Exception):
    """What is there is no JSON, or more than is read; the text says why."""


def trace_events(path: Path, about: dict[str, Any] | None = None) -> Iterator[dict[str, Any]]:
    """The events of a trace file, plain or gzipped, in the order in which they are written.

    What is no object among the events is left out; a file of other JSON has no events.

    Args:
        path: the file.
        about: filled with the values named in `KEPT`, where they stand beside the events.

    Raises:
        ConfiguratorError: EVD002, the file cannot be read, is cut off, is no JSON, or is larger
            than `MOST_BYTES`.
    """
    try:
        check_regular(path, MOST_BYTES)
        with _opened(path) as file:
            yield from _Reader(file).events({} if about is None else about)
    except (OSError, ValueError) as error:
        why = why_unread(str(path), error) if isinstance(error, OSError) else str(error)
        if isinstance(error, FileNotFoundError):
            raise ConfiguratorError.single("EVD002", why, "give the path of a trace") from error
        raise _broken(why if str(path) in why else f"{path} cannot be read: {why}") from error
    except (EOFError, zlib.error) as error:
        raise _broken(f"{path} cannot be unpacked: {error}") from error
    except RecursionError as error:
        raise _broken(f"{path} is nested too deep to be read") from error
    except _WrongError as error:
        raise _broken(f"{path} {error}") from error


def _broken(text: str) -> ConfiguratorError:
    return ConfiguratorError.single("EVD002", text, _AGAIN)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """The file, unpacked where its first bytes say that it is packed."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        is_packed = file.peek(2)[:2] == _GZIP
        yield cast("IO[bytes]", gzip.GzipFile(fileobj=file)) if is_packed else file


class _Reader:
    """The text of a trace, and how far it has been read."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        # What `raw_decode` calls, which hides that a number may go on.
        self.scan: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
        self.text = ""
        self.at = 0
        self.bytes = 0
        self.ended = False
        self.values = 0

    def events(self, about: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The events, with `about` filled on the way."""
        first = self.peek()
        if first == "[":
            yield from self.items()
        elif first == "{":
            yield from self.members(about)
        else:
            self.value()
        if self.peek():
            raise _WrongError(f"is no trace: {self.where()} something follows the end of the JSON")

    def members(self, about: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The object around the events."""
        seen = False
        self.at += 1
        more = self.peek() != "}"
        while more:
            name = self.value()
            if not isinstance(name, str) or self.peek() != ":":
                raise _WrongError(f"is no JSON {self.where()}: a name and a colon are wanted")
            self.at += 1
            if name != "traceEvents":
                beside = self.value()
                if name in KEPT:
                    about[name] = beside
            elif seen:
                raise _WrongError("names traceEvents twice")
            elif self.peek() == "[":
                seen = True
                yield from self.items()
            else:
                self.value()
            more = self.is_followed("}")
        self.at += 1

    def items(self) -> Iterator[dict[str, Any]]:
        """The objects of an array."""
        self.at += 1
        more = self.peek() != "]"
        while more:
            found = self.value()
            if isinstance(found, dict):
                yield found
            more = self.is_followed("]")
        self.at += 1

    def is_followed(self, end: str) -> bool:
        """Whether a comma is next, which is passed, and not `end`."""
        found = self.peek()
        if found == ",":
            self.at += 1
        elif found != end:
            raise _WrongError(f"is cut off {self.where()}" if not found else
                         f"is no JSON {self.where()}: a comma or {end} is wanted")  # fmt: skip
        return found == ","

    def value(self) -> Any:
        """The value that comes next."""
        while True:
            self.peek()
            try:
                found, end = self.scan(self.text, self.at)
                # A number may go on in the next piece.
                if end == len(self.text) and not self.ended:
                    raise _CutError
            except (StopIteration, json.JSONDecodeError, _CutError) as error:
                if len(self.text) - self.at > MOST_VALUE:
                    text = (
                        f"holds no JSON {self.where()}, or a value of over {MOST_VALUE >> 20} MiB"
                    )
                    raise _WrongError(text) from error
                if not self.more():
                    raise _WrongError(f"is cut off or no JSON {self.where()}") from error
            else:
                self.at = end
                self.values += 1
                if self.values > MOST_VALUES:
                    raise _WrongError(f"holds over {MOST_VALUES:,} events, more than is read")
                return found

    def peek(self) -> str:
        """The next character that is no space; empty at the end."""
        while True:
            found = _SPACE.match(self.text, self.at)
            self.at = found.end() if found else self.at
            if self.at < len(self.text):
                return self.text[self.at]
            if not self.more():
                return ""

    def more(self) -> bool:
        """Read the next piece behind what is left of this one; False: the end was known."""
        if self.ended:
            return False
        # A value that needs several pieces takes them in growing steps, or it would be read
        # from its beginning for each.
        piece = self.file.read(max(PIECE, len(self.text) - self.at))
        self.bytes += len(piece)
        if self.bytes > MOST_BYTES:
            raise _WrongError(f"holds over {MOST_BYTES >> 30} GiB, more than is read")
        self.ended = not piece
        self.text = self.text[self.at :] + self.decode(piece, self.ended)
        self.at = 0
        return True

    def where(self) -> str:
        """About where the reading stands."""
        return f"near byte {max(0, self.bytes - len(self.text) + self.at):,}"
