"""Checkpoints of which something cannot be read, or is not there."""

from __future__ import annotations

from collections.abc import Iterator

from configurator import Checkpoint, Finding, Launch, did_you_mean, launch_rule

_KINDS = ("config.json", "params.json", "model_index.json")
"""What makes a directory a checkpoint: transformers, Mistral, diffusers."""
_Place = tuple[str | int, ...]


def _checkpoints(launch: Launch) -> Iterator[tuple[Checkpoint, str, _Place]]:
    """The target's and the draft's, with the option that names it and where that is written."""
    for checkpoint, name in (
        (launch.checkpoint, "model-path"),
        (launch.draft, "speculative-draft-model-path"),
    ):
        if checkpoint is not None:
            option = launch.option(name)
            yield checkpoint, name, launch.path(option) if option else _first(launch)


def _first(launch: Launch) -> _Place:
    """Where a model is written that no option names."""
    positionals = launch.parsed.positionals
    return launch.words[positionals[0]].path if positionals else ("argv",)


@launch_rule("CKPT001", "checkpoint-unreadable", source="the format of huggingface/safetensors")
def checkpoint_unreadable(launch: Launch) -> Iterator[Finding]:
    """A file of the checkpoint is broken: JSON that is none, a safetensors file that is truncated
    or a Git LFS pointer, an index or a link that leads out of the directory.

    The engine stops at it, and nothing that the file says can be judged here.

    Bad:
        # config: {"num_hidden_layers": 78
        sglang serve --model-path CHECKPOINT

    Good:
        # config: {"num_hidden_layers": 78}
        sglang serve --model-path CHECKPOINT
    """
    for checkpoint, _, path in _checkpoints(launch):
        for problem in checkpoint.problems:
            line = f", line {problem.position.line}" if problem.position else ""
            yield Finding(path, f"{checkpoint.path}: {problem.message}{line}", problem.remedy)


@launch_rule("CKPT101", "config-not-in-checkpoint", source="sglang 0.5.23: get_config")
def config_not_in_checkpoint(launch: Launch) -> Iterator[Finding]:
    """The directory exists and holds no config: a download that stopped, or the wrong level.

    A directory with `params.json`, `model_index.json` or a GGUF file is one of another kind.

    Bad:
        # tensors: lm_head.weight
        sglang serve --model-path CHECKPOINT

    Good:
        # config: {"num_hidden_layers": 1}
        sglang serve --model-path CHECKPOINT
    """
    for checkpoint, name, path in _checkpoints(launch):
        if any(file in _KINDS or file.endswith(".gguf") for file in checkpoint.files):
            continue
        yield Finding(
            path,
            f"{checkpoint.path} has no config.json; files there: {len(checkpoint.files)}",
            f"point --{name} at the directory with config.json, or fetch the checkpoint again",
        )


@launch_rule(
    "CKPT102",
    "weights-not-in-checkpoint",
    severity="warning",
    source="sglang 0.5.23: model_loader/weight_utils.py; model.safetensors.index.json",
)
def weights_not_in_checkpoint(launch: Launch) -> Iterator[Finding]:
    """The index names files of weights that are not there: the launch fails after minutes, or
    serves a model with layers that were never filled.

    Only a warning, because the facts of a checkpoint may lie on another machine than its weights.

    Bad:
        # config: {"num_hidden_layers": 1}
        # tensors: lm_head.weight
        sglang serve --model-path CHECKPOINT

    Good:
        # config: {"num_hidden_layers": 1}
        sglang serve --model-path CHECKPOINT
    """
    for checkpoint, _, path in _checkpoints(launch):
        missing = checkpoint.missing_shards
        if not missing:
            continue
        there = [file for file in checkpoint.files if file.endswith(".safetensors")]
        shown = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
        yield Finding(
            path,
            f"the index of {checkpoint.path} names weights that are not there, in {len(missing)} "
            f"{'files' if len(missing) > 1 else 'file'}: {shown}"
            + ("" if there else "; there is no file of weights"),
            f"fetch {shown}" + ("" if there else ", or check the launch where the weights are"),
        )


@launch_rule(
    "CKPT103",
    "architecture-unknown-to-the-engine",
    severity="warning",
    source="the model classes in the sources of every release: engine/catalogue.json.xz",
)
def architecture_unknown_to_the_engine(launch: Launch) -> Iterator[Finding]:
    """A model class that this release does not have: it stops while loading, or runs through the
    slower general implementation of transformers, without the release's own kernels.

    Bad:
        # engine: 0.5.9
        # config: {"architectures": ["MuseSparkForConditionalGeneration"]}
        sglang serve --model-path CHECKPOINT

    Good:
        # engine: 0.5.23
        # config: {"architectures": ["MuseSparkForConditionalGeneration"]}
        sglang serve --model-path CHECKPOINT
    """
    known = launch.catalogue
    if known is None or not known.architectures or not launch.engine.released:
        return
    if launch.text("model-impl") in ("transformers", "mindspore"):
        return
    for checkpoint, _, path in _checkpoints(launch):
        names = [name for name in checkpoint.architectures if name not in known.architectures]
        if names and len(names) == len(checkpoint.architectures):
            yield Finding(
                path,
                f"sglang {known.version} has no model class {' or '.join(names)}",
                did_you_mean(names[0], known.architectures),
            )
