"""Launch commands judged for a release: what is found, where, and for which engine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from corpus import commands, unknown

from configurator.content import Library
from configurator.engine.catalogue import available_versions
from configurator.errors import ConfiguratorError
from configurator.lint import Around, engine_named, lint, unreadable
from configurator.linted import Linted
from configurator.loader import Validators
from configurator.readers.files import read_argv_json, read_text

NEWEST = available_versions()[-1]


class Lint:
    """Texts linted with the built-in rules."""

    def __init__(self, library: Library, validators: Validators) -> None:
        self.library = library
        self.rules = tuple(validators.rules.values())

    def __call__(
        self, text: str, engine: str | None = None, hardware: str | None = None, **more: str
    ) -> Linted:
        around = Around(
            engine_named(engine, self.library) if engine else None,
            self.library.hardware(hardware) if hardware else None,
            **more,
        )
        return lint(read_text(text, "run.sh"), text, around, self.library, self.rules)

    def codes(self, text: str, **more: str) -> list[tuple[str, int, int]]:
        return [
            (f.code, f.position.line, f.position.column)
            for f in self(text, **more).findings
            if f.position is not None
        ]


@pytest.fixture
def linted(library: Library, validators: Validators) -> Lint:
    return Lint(library, validators)


def test_a_good_command_has_no_findings(linted: Lint) -> None:
    result = linted("sglang serve --model-path m --tp-size 2\n", engine="0.5.23")
    assert (result.findings, result.exit_code()) == ((), 0)
    assert result.commands[0].engine_accepts


def test_all_errors_at_once_each_with_its_place(linted: Lint) -> None:
    text = (
        "export SGLANG_ENABLE_SPEC_V2=1 SGLANG_LOG_GCC=1\n"
        "python3 -m sglang.launch_server \\\n"
        "  --model-path m \\\n"
        "  --cuda-graph-max-bs 64 --max-model-len 9 \\\n"
        "  --attention-backend fa33 --tp 2 \\\n"
        "  --nsa-decode-backend=trtllm\n"
    )
    assert linted.codes(text, engine="0.5.23") == [
        ("ENV105", 1, 8),
        ("ENV101", 1, 32),
        ("ENG109", 4, 3),
        ("ENG107", 4, 26),
        ("ENG102", 5, 23),
        ("ENG104", 5, 28),
        ("ENG101", 6, 3),
    ]
    old = linted(text, engine="0.5.9")
    assert "ENG109" not in {f.code for f in old.findings}
    assert not old.commands[0].engine_accepts


def test_the_subject_is_the_option_or_the_variable(linted: Lint) -> None:
    text = "SGLANG_LOG_GCC=1 sglang serve --model-path m --attention-backend fa33\n"
    assert [f.path for f in linted(text, engine="0.5.23").findings] == [
        "SGLANG_LOG_GCC", "--attention-backend",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("image", "version", "because"),
    [
        ("lmsysorg/sglang:v0.5.9", "0.5.9", "image"),
        ("lmsysorg/sglang:v0.5.20-cu130", "0.5.20", "image"),
        ("registry.example/team/sglang:0.5.10.post1-rocm", "0.5.10.post1", "image"),
        ("lmsysorg/sglang:latest", NEWEST, "newest release"),
        ("lmsysorg/sglang:v0.5.9rc1", NEWEST, "newest release"),
        ("lmsysorg/sglang:v0.4.0", NEWEST, "newest release; the image has no catalogue"),
        ("lmsysorg/sglang@sha256:00", NEWEST, "newest release"),
    ],
)
def test_the_engine_follows_the_image(linted: Lint, image: str, version: str, because: str) -> None:
    text = f"docker run --gpus all {image} python3 -m sglang.launch_server --model-path m\n"
    (command,) = linted(text).commands
    assert (command.launch.engine.version, command.engine_because) == (version, because)
    (asked,) = linted(text, engine="0.5.12").commands
    assert (asked.launch.engine.version, asked.engine_because) == ("0.5.12", "asked for")


def test_engines_by_name(library: Library) -> None:
    assert engine_named("0.5.3.post2", library).version == "0.5.3.post2"
    assert engine_named("v0.5.9", library).version == "0.5.9"
    assert engine_named("ling-v3-mxfp4-humming", library).released is False
    with pytest.raises(ConfiguratorError, match="REF005"):
        engine_named("0.5.24", library)


def test_a_finding_is_silenced_by_a_comment_with_a_reason(linted: Lint) -> None:
    text = (
        "# configurator: ignore[ENG104] the team writes it so\nsglang serve --model-path m --tp 2\n"
    )
    (finding,) = linted(text, engine="0.5.23").findings
    assert (finding.code, finding.suppressed) == ("ENG104", "the team writes it so")
    bare = text.replace(" the team writes it so", "")
    assert {f.code for f in linted(bare, engine="0.5.23").findings} == {"ENG104", "SUP001"}


def test_two_launches_that_share_a_line_are_said_once(linted: Lint) -> None:
    text = "for i in 0 1; do\n  sglang serve --model-path m --tp 2 --port $((30000 + i)) &\ndone\n"
    result = linted(text, engine="0.5.23")
    assert len(result.commands) == 2
    assert [f.code for f in result.findings] == ["ENG104"]


def test_hardware_makes_its_rules_speak(linted: Lint) -> None:
    text = "sglang serve --model-path m --attention-backend fa3\n"
    assert linted(text, engine="0.5.23").exit_code() == 0
    found = linted(text, engine="0.5.23", hardware="b200").findings
    assert any("fa3" in f.message and f.severity == "error" for f in found)


def test_a_checkpoint_makes_its_rules_speak(linted: Lint, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"num_attention_heads": 28, "hidden_size": 3584}')
    text = "sglang serve --model-path /models/m --tp-size 8\n"
    assert linted(text, engine="0.5.23").exit_code() == 0
    found = linted(text, engine="0.5.23", checkpoint=str(tmp_path)).findings
    assert any(f.code.startswith("CKPT") and "28" in f.message for f in found)


def test_a_file_without_a_launch_is_no_error(linted: Lint) -> None:
    result = linted("echo hello\n")
    assert [(f.code, f.severity) for f in result.findings] == [("LNT005", "info")]
    assert result.exit_code() == 0


def test_a_file_that_cannot_be_read_is_unusable() -> None:
    result = unreadable("x", ConfiguratorError.single("LNT001", "cannot read x", "check"))
    assert (result.exit_code(), result.exit_code("info")) == (2, 2)


def test_accepted_real_commands_get_no_error_that_names_no_source(
    library: Library, validators: Validators
) -> None:
    """What the real parser accepts is an error of ours only by a rule that says why."""
    rules = tuple(validators.rules.values())
    for version in ("0.5.9", "0.5.23"):
        around = Around(engine_named(version, library))
        for row in commands():
            if not row["truth"][version]["accepted"]:
                continue

            text = json.dumps({"argv": row["argv"], "env": row["env"]})
            result = lint(read_argv_json(text, "a.json"), text, around, library, rules)
            (command,) = result.commands
            assert command.engine_accepts or unknown(row["argv"]), row["id"]
            for finding in command.findings:
                if finding.severity == "error":
                    assert not finding.code.startswith("ENG1"), (row["id"], finding)
                    assert finding.source, (row["id"], finding)
