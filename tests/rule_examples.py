"""The `Bad:` and `Good:` examples in a rule's docstring: its page and its test in one text.

An example is a profile, or a launch command. Comments before a command say what is around it:

    # engine: 0.5.17
    # hardware: b200
    # config: {"num_hidden_layers": 78}
    # draft-config: {"architectures": ["LlamaForCausalLMEagle3"]}
    # tensors: lm_head.weight model.embed_tokens.weight
    NAME=VALUE sglang serve --model-path CHECKPOINT --speculative-draft-model-path DRAFT

CHECKPOINT and DRAFT stand for directories with those files.
"""

from __future__ import annotations

import json
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

_TITLES = {"Bad:": "bad", "Good:": "good"}
_HEADER = (("apiVersion", "configurator/v1"), ("kind", "Deployment"), ("name", "example"))


@dataclass(frozen=True, slots=True)
class Example:
    """One block of a docstring."""

    kind: Literal["bad", "good"]
    text: str
    """YAML without its indentation, as written."""

    @property
    def is_command(self) -> bool:
        """It is a launch command and no profile."""
        return re.search(r"sglang(\.launch_server| serve)\b", self.text) is not None

    @property
    def around(self) -> dict[str, str]:
        """What the comments before a command say."""
        return dict(re.findall(r"^# ([a-z-]+): (.*)$", self.text, re.MULTILINE))

    def written(self, folder: Path) -> str:
        """The command, with CHECKPOINT and DRAFT as directories below `folder`."""
        text = self.text
        for word, prefix in (("CHECKPOINT", ""), ("DRAFT", "draft-")):
            path = folder / word.lower()
            path.mkdir()
            config, tensors = (self.around.get(f"{prefix}{key}") for key in ("config", "tensors"))
            if config:
                (path / "config.json").write_text(config)
            if tensors is not None:
                index = {"weight_map": dict.fromkeys(tensors.split(), "model.safetensors")}
                (path / "model.safetensors.index.json").write_text(json.dumps(index))
            text = re.sub(rf"\b{word}\b", str(path), text)
        return text

    @property
    def profile(self) -> str:
        """The text as a whole profile: a missing apiVersion, kind or name is added."""
        missing = [
            f"{key}: {value}\n"
            for key, value in _HEADER
            if not re.search(rf"^{key}:", self.text, re.MULTILINE)
        ]
        return "".join(missing) + self.text


def examples(doc: str) -> tuple[Example, ...]:
    """Every `Bad:` and `Good:` block of a docstring, in order.

    A block is the indented lines below its title, up to the next line that is not indented.
    """
    first, _, rest = doc.partition("\n")
    found: list[Example] = []
    kind: str | None = None
    block: list[str] = []
    for line in [*f"{first.strip()}\n{textwrap.dedent(rest)}".splitlines(), "end"]:
        if not line or line.startswith(" "):
            block.append(line)
            continue
        if kind and (text := textwrap.dedent("\n".join(block)).strip("\n")):
            found.append(Example("bad" if kind == "bad" else "good", f"{text}\n"))
        kind, block = _TITLES.get(line.rstrip()), []
    return tuple(found)
