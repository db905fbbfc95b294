"""Model classes, the drafts that replace them, and how these take the target's head."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from configurator.engine.architectures import extract_architectures
from configurator.engine.catalogue import shipped
from configurator.engine.records import Architecture
from configurator.engine.sources import SourceTree

Tree = Callable[..., Path]

MODELS = {
    "sglang/srt/server_args.py": "",
    "sglang/srt/configs/model_config.py": """
        FAMILY = ["AlphaForCausalLM", "AlphaV2ForCausalLM"]
        class ModelConfig:
            def configure(self):
                if is_draft_model and self.hf_config.architectures[0] in FAMILY:
                    if bundled:
                        self.hf_config.architectures[0] = "AlphaSpark"
                    else:
                        self.hf_config.architectures[0] = "AlphaNextN"
                if is_draft_model and self.hf_config.architectures[0] == "Beta":
                    self.hf_config = self.text
                    self.hf_config.architectures = ["BetaMTP"]
                if self.hf_config.architectures[0] == "Gamma":
                    self.hf_config.architectures[0] = "NotADraft"
    """,
    "sglang/srt/models/alpha.py": """
        class AlphaForCausalLM:
            def set_embed_and_head(self, embed, head): ...
        class AlphaV2ForCausalLM(AlphaForCausalLM): ...
        EntryClass = [AlphaForCausalLM, AlphaV2ForCausalLM]
    """,
    "sglang/srt/models/alpha_drafts.py": """
        from sglang.srt.models.alpha import AlphaForCausalLM
        class AlphaNextN(AlphaForCausalLM):
            def set_lm_head_from_target(self, head): ...
        class AlphaSpark:
            def attach_shared_modules(self, embed, head): ...
        class AlphaEagle3(AlphaForCausalLM): ...
        EntryClass = [AlphaNextN, AlphaSpark]
        EntryClass.append(AlphaEagle3)
    """,
    "sglang/srt/models/beta.py": """
        from elsewhere import Base
        class Beta(Base): ...
        Made = type("MadeByName", (Beta,), {})
        EntryClass = (Beta, Made)
    """,
    "sglang/srt/models/gamma.py": "class Gamma: ...\nEntryClass = Gamma",
    "sglang/srt/models/none.py": "class Unused: ...",
    "sglang/srt/models/broken.py": "EntryClass = (",
    "sglang/srt/models/parts/inner.py": "class Inner: ...\nEntryClass = Inner",
}


def test_every_class_with_its_draft_and_head(tree: Tree) -> None:
    drafts = ("AlphaNextN", "AlphaSpark")
    assert extract_architectures(SourceTree(tree(MODELS))) == [
        Architecture("AlphaEagle3", "alpha_drafts"),
        Architecture("AlphaForCausalLM", "alpha", drafts, "weight"),
        Architecture("AlphaNextN", "alpha_drafts", (), "module"),
        Architecture("AlphaSpark", "alpha_drafts", (), "module"),
        Architecture("AlphaV2ForCausalLM", "alpha", drafts, "weight"),
        Architecture("Beta", "beta", ("BetaMTP",)),
        Architecture("Gamma", "gamma"),
        Architecture("MadeByName", "beta"),
    ]


def test_an_engine_without_models(tree: Tree) -> None:
    assert extract_architectures(SourceTree(tree({"sglang/srt/server_args.py": ""}))) == []


# Counts of the sources; that of 0.5.23 includes every class that the registry of the installed
# release offers.
@pytest.mark.parametrize(("version", "count"), [("0.5.1", 108), ("0.5.9", 178), ("0.5.23", 290)])
def test_shipped_counts(version: str, count: int) -> None:
    known = shipped().load(version)
    assert known is not None
    assert len(known.architectures) == count


def test_shipped_facts_of_0_5_23() -> None:
    known = shipped().load("0.5.23")
    assert known is not None
    found = known.architectures
    assert found["BailingMoeV3ForCausalLM"].drafts == ("BailingMoeForCausalLMNextN",)
    assert found["BailingMoeForCausalLMNextN"].shares_head == "weight"
    assert found["Qwen3_5ForCausalLMMTP"].shares_head == "module"
    assert found["NemotronHForCausalLMMTP"].shares_head == "module"
    assert found["LlamaForCausalLMEagle3"].shares_head is None
    assert found["DeepseekV4ForCausalLM"].drafts == (
        "DeepseekV4ForCausalLMDSpark", "DeepseekV4ForCausalLMNextN",
    )  # fmt: skip
    assert {n.name: n.detail for n in known.named("speculative-algorithm").values()} == {
        "DFLASH": "", "DSPARK": "", "EAGLE": "", "EAGLE3": "", "FROZEN_KV_MTP": "",
        "NEXTN": "EAGLE", "NGRAM": "", "STANDALONE": "", "UNO": "",
    }  # fmt: skip
    assert known.named("requirement")["humming-kernels"].detail == "[cu13]==0.1.12"
    assert "sglang.srt.plugins" in known.named("plugin-group")


@pytest.mark.parametrize(
    ("version", "serve", "positional", "options", "models", "merges"),
    [
        ("0.5.1", False, False, (), (), False),
        ("0.5.9", True, False, (), ("model-path",), True),
        ("0.5.15", True, False, ("model-type",), ("model", "model-path"), True),
        ("0.5.16", True, True, ("model-type",), ("model", "model-path"), True),
        ("0.5.23", True, True, ("model-type",), ("model", "model-path"), True),
    ],
)
def test_shipped_entries(
    version: str,
    serve: bool,
    positional: bool,
    options: tuple[str, ...],
    models: tuple[str, ...],
    merges: bool,
) -> None:
    known = shipped().load(version)
    assert known is not None
    entry = known.entry
    assert (entry.serve, entry.serve_options, entry.merges_config) == (serve, options, merges)
    assert known.positional_model is positional
    assert entry.model_options == models
    assert entry.abbreviations
