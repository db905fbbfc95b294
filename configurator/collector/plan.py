"""What is asked of every replica: how many requests, which texts, how many at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

LEVEL1_REQUESTS, LEVEL1_TOKENS = 3, 64
LEVEL2_REQUESTS, LEVEL2_TOKENS = 24, 128
ENOUGH_VERIFY_STEPS = 400
"""Level 2 stops here: the interval of the acceptance length is narrow enough."""
ENOUGH_ALONE = 200
"""Where requests follow together, those that are sent alone stop here."""
MOST_ALONE, MOST_TOGETHER, MOST_REFERENCES = 8, 256, 8
KNOWN_ANSWER = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,"
"""A text that every language model continues in the same way."""
SPEECH = ("Explain to a new colleague", "Write a short letter about", "Tell the story of",
          "List the arguments for and against")  # fmt: skip
SUBJECTS = ("moving a small library to another town", "repairing an old bicycle in winter",
            "planting trees along a busy street", "learning to bake bread at sixty",
            "a ferry that was late on a foggy morning", "sharing one kitchen among nine people",
            )  # fmt: skip

Sent = tuple[str, dict[str, Any]]
"""Kind of the text, and body, of a request."""


@dataclass(frozen=True)
class Plan:
    """What to ask of every replica."""

    level: int = 1
    passive: bool = False
    concurrency: int = 1
    prompts: tuple[str, ...] = ()
    sampling: Mapping[str, Any] = field(default_factory=dict)
    wait_s: float = 0.0
    progress: Callable[[str], None] = lambda text: None
    references: tuple[Mapping[str, Any], ...] = ()
    """Greedy requests of another run, to be sent again and compared."""

    @property
    def tokens(self) -> int:
        """Tokens that a request asks for."""
        return LEVEL1_TOKENS if self.level == 1 else LEVEL2_TOKENS

    @property
    def width(self) -> int:
        """Requests at a time, where they are sent together."""
        return min(self.concurrency, MOST_TOGETHER) if self.level > 1 else 1

    def alone(self, tokenizer: bool) -> list[Sent]:
        """The requests that are sent one at a time. No prompt is sent twice: an n-gram draft would
        know the answer."""
        limit = LEVEL1_REQUESTS if self.level == 1 else LEVEL2_REQUESTS
        if not tokenizer:
            return [self.of_ids(i) for i in range(MOST_ALONE if self.width > 1 else limit)]
        own = list(dict.fromkeys(self.prompts))
        if self.width > 1:
            own = own[: min(MOST_ALONE, (len(own) + 1) // 2)]
            limit = MOST_ALONE
        first = [self.greedy({"text": KNOWN_ANSWER}, "known-answer")]
        if self.level > 1 and own:
            first += map(self.easy, range(2))
        rest = [self.ask(prompt, "profile") for prompt in own] or [*map(self.easy, range(limit))]
        return [*first, *rest][:limit]

    def together(self, tokenizer: bool, again: bool) -> list[list[Sent]]:
        """The requests that are sent `width` at a time: the profile's texts, filled up.

        Args:
            tokenizer: whether the server takes text.
            again: whether texts may be sent that were sent alone.
        """
        width = self.width
        if width == 1:
            return []
        number = width * max(1, 16 // width)
        own = list(dict.fromkeys(self.prompts)) if tokenizer else []
        own = own if again else own[min(MOST_ALONE, (len(own) + 1) // 2) :]
        asked = [self.ask(prompt, "profile") for prompt in own][:number]
        fill = self.easy if tokenizer else self.of_ids
        asked += [fill(LEVEL2_REQUESTS + i) for i in range(number - len(asked))]
        return [asked[i : i + width] for i in range(0, number, width)]

    def compared(self, tokenizer: bool) -> list[Sent]:
        """Greedy requests, so that this run and another can be held against each other."""
        kept = [("reference", dict(body)) for body in self.references[:MOST_REFERENCES]]
        if self.level == 1 or not tokenizer or not self.sampling.get("temperature", 0):
            return kept
        prompts = list(dict.fromkeys(self.prompts)) or [_easy(i) for i in range(2)]
        known = [body.get("text") for _, body in kept]
        return kept + [
            self.greedy({"text": prompt}, "reference") for prompt in prompts[:2]
            if prompt not in known
        ]  # fmt: skip

    def ask(self, prompt: str, kind: str) -> Sent:
        """A request with the sampling of the profile."""
        return kind, {"text": prompt, "sampling_params": self._sampling()}

    def easy(self, index: int) -> Sent:
        """A request for plain prose; every index is another text."""
        return self.ask(_easy(index), "easy")

    def of_ids(self, index: int) -> Sent:
        """A request for a server without tokenizer."""
        ids = [7 + (index * 37 + k * k * 11) % 400 for k in range(24)]
        return "unknown", {"input_ids": ids, "sampling_params": self._sampling()}

    def greedy(self, body: Mapping[str, Any], kind: str) -> Sent:
        """A request whose answer the engine has no choice in."""
        params = {"temperature": 0, "max_new_tokens": self.tokens}
        return kind, {**body, "sampling_params": params}

    def _sampling(self) -> dict[str, Any]:
        return {"temperature": 0, **self.sampling, "max_new_tokens": self.tokens}


def _easy(index: int) -> str:
    round_, place = divmod(index, len(SUBJECTS) * len(SPEECH))
    subject, speech = divmod(place, len(SPEECH))
    part = f", part {round_ + 1}" if round_ else ""
    return f"{SPEECH[speech]} {SUBJECTS[subject]}{part}.\n\n"
