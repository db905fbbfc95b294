"""Make the tiny models of the self-test: run it with the engine's Python and a folder.

In each, the embedding decides alone: the next token of token t is `successor[t]`, a permutation,
because row `successor[t]` of the LM head is the embedding of t and the layers between are small.
So a draft of the same permutation is always accepted, one of another never, and every acceptance
length is exact. Weights are written, not trained; the same seed makes the same files.
"""

# ruff: noqa: INP001
# mypy: disable-error-code="import-not-found,import-untyped"
from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    Glm4MoeConfig,
    Glm4MoeForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

VOCABULARY, WIDTH = 512, 256
SPECIAL = ("<unk>", "<s>", "</s>", "<|user|>", "<|assistant|>", "<|end|>")
TEMPLATE = (
    "{% for m in messages %}<|{{ m.role }}|> {{ m.content }} <|end|> {% endfor %}"
    "{% if add_generation_prompt %}<|assistant|> {% endif %}"
)
COMMON: dict[str, Any] = {
    "hidden_size": WIDTH, "intermediate_size": 512, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64,
    "vocab_size": VOCABULARY, "max_position_embeddings": 2048, "initializer_range": 0.02,
    "bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": False,
}  # fmt: skip
GLM: dict[str, Any] = {
    **COMMON, "num_hidden_layers": 3, "moe_intermediate_size": 128, "n_routed_experts": 8,
    "num_experts_per_tok": 2, "n_shared_experts": 1, "first_k_dense_replace": 1, "n_group": 1,
    "topk_group": 1, "routed_scaling_factor": 1.0, "norm_topk_prob": True,
    "partial_rotary_factor": 0.5, "use_qk_norm": True,
}  # fmt: skip


def write_tokenizer(folder: Path) -> None:
    """One word, one token: `w6` to `w511`; everything else is `<unk>`."""
    words = [*SPECIAL, *(f"w{number}" for number in range(len(SPECIAL), VOCABULARY))]
    vocabulary = {word: number for number, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoders.WordPiece(prefix="##", cleanup=False)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>",
        pad_token="</s>", additional_special_tokens=list(SPECIAL[3:]),
    )  # fmt: skip
    fast.chat_template = TEMPLATE
    fast.save_pretrained(folder)


def permute(model: Any, seed: int, agreeing: float = 1.0) -> None:
    """Embedding and head of a permutation of all words; the special tokens lead into it.

    Args:
        model: any causal model of transformers.
        seed: of the permutation.
        agreeing: share of the tokens that keep their successor.
    """
    generator = torch.Generator().manual_seed(seed)
    embedding = torch.randn(VOCABULARY, WIDTH, generator=generator)
    first = len(SPECIAL)
    order = torch.randperm(VOCABULARY - first, generator=generator) + first
    successor = torch.arange(VOCABULARY)
    successor[order] = order.roll(-1)
    successor[:first] = order[0]
    if agreeing < 1:
        other = torch.rand(VOCABULARY, generator=generator) >= agreeing
        other[:first] = False
        places = other.nonzero().flatten()
        successor[places] = successor[places.roll(1)]
    head = torch.zeros(VOCABULARY, WIDTH)
    for token in range(VOCABULARY):
        head[successor[token]] += embedding[token]
    with torch.no_grad():
        model.model.embed_tokens.weight.copy_(embedding)
        model.lm_head.weight.copy_(head / 16)


def write_llama(folder: Path, seed: int, agreeing: float = 1.0) -> None:
    """A dense model; all of them have the same permutation, as far as they agree."""
    torch.manual_seed(seed)
    model = LlamaForCausalLM(LlamaConfig(**COMMON)).to(torch.bfloat16)
    permute(model, 5, agreeing)
    model.save_pretrained(folder)
    write_tokenizer(folder)


def write_glm(folder: Path, draft: str) -> None:
    """A model with experts and a prediction layer (MTP) for drafts.

    Args:
        folder: where it goes.
        draft: `good`: the layer hands the embedding on, and predicts as the model does; `wrong`:
            it mixes at random; `missing`: the config promises the layer, the weights are not there.
    """
    torch.manual_seed(3)
    model = Glm4MoeForCausalLM(Glm4MoeConfig(**GLM)).to(torch.bfloat16)
    permute(model, 7)
    model.save_pretrained(folder)
    write_tokenizer(folder)
    config = folder / "config.json"
    said = json.loads(config.read_text())
    config.write_text(json.dumps({**said, "num_nextn_predict_layers": 1}, indent=1))
    if draft != "missing":
        path = folder / "model.safetensors"
        weights = load_file(path)
        save_file(weights | prediction_layer(weights, draft), path, metadata={"format": "pt"})


def prediction_layer(weights: dict[str, Any], draft: str) -> dict[str, Any]:
    """Weights of the MTP layer: the last layer again, and the projection that makes it one."""
    last = GLM["num_hidden_layers"] - 1
    mine = f"model.layers.{last + 1}."
    layer = {
        name.replace(f"model.layers.{last}.", mine): tensor.clone()
        for name, tensor in weights.items()
        if name.startswith(f"model.layers.{last}.")
    }
    # It is given the embedding of the next token and the hidden state, side by side.
    projection = torch.zeros(WIDTH, 2 * WIDTH)
    if draft == "good":
        projection[:, :WIDTH] = torch.eye(WIDTH)
    else:
        projection = torch.randn(WIDTH, 2 * WIDTH, generator=torch.Generator().manual_seed(11)) / 10
    ones = torch.ones(WIDTH, dtype=torch.bfloat16)
    return layer | {
        f"{mine}eh_proj.weight": projection.to(torch.bfloat16),
        f"{mine}enorm.weight": ones,
        f"{mine}hnorm.weight": ones.clone(),
        f"{mine}shared_head.norm.weight": ones.clone(),
        f"{mine}embed_tokens.weight": weights["model.embed_tokens.weight"].clone(),
        f"{mine}shared_head.head.weight": weights["lm_head.weight"].clone(),
    }


def main(folder: Path) -> None:
    """Write every model below `folder`."""
    write_llama(folder / "dense", 21)
    write_llama(folder / "draft-good", 22)
    write_llama(folder / "draft-half", 23, 0.5)
    write_llama(folder / "draft-wrong", 24, 0.0)
    for draft in ("good", "wrong", "missing"):
        write_glm(folder / f"mtp-{draft}", draft)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
