"""An import never changes a launch: what comes back is what was there."""

from __future__ import annotations

import pytest
from corpus import commands

from configurator.content import Library
from configurator.import_sorting import words_back
from configurator.importing import Imported, import_command
from configurator.lint import Around, engine_named, launch_of_command
from configurator.loader import Validators
from configurator.readers.files import read_argv, read_text
from configurator.resolve import resolve
from configurator.schema.base import parse
from configurator.schema.profile import Profile
from configurator.source import parse_source
from configurator.validate import judge
from configurator.words import Command

MODEL = "--model-path /models/m"


def imported(
    command: Command, library: Library, engine: str = "0.5.23", hardware: str | None = None
) -> Imported:
    launch = launch_of_command(command, engine_named(engine, library), Around())
    return import_command(command, launch, library, "imported", hardware)


def of_text(text: str, library: Library, engine: str = "0.5.23") -> Imported:
    (command,) = read_text(text, "run.sh").commands
    return imported(command, library, engine)


def given_back(text: str, library: Library, rank: int = 0) -> tuple[list[str], dict[str, str]]:
    """Arguments and environment of the process that a written profile gives."""
    layers = library.extend(parse_source(text, "imported.yaml"))
    deployment = resolve(parse(Profile, layers.data, layers.locate), layers, library)
    process = next(p for p in deployment.processes if p.rank == rank)
    return list(words_back(process)), dict(process.env)


@pytest.mark.parametrize("version", ["0.5.9", "0.5.20", "0.5.23"])
def test_every_accepted_real_command_comes_back_word_for_word(
    library: Library, version: str
) -> None:
    count = 0
    for row in commands():
        if not row["truth"][version]["accepted"] or any("$" in word for word in row["argv"]):
            continue
        command = read_argv(row["argv"], row["env"], f"{row['id']}.json")
        made = imported(command, library, version)
        argv, env = given_back(made.text, library, made_rank(row["argv"]))
        assert made.exact, (row["id"], made.problems)
        if {p.code for p in made.problems} <= {"IMP004"}:
            assert argv == row["argv"], row["id"]
        assert env == row["env"], row["id"]
        count += 1
    assert count > 80


def made_rank(argv: list[str]) -> int:
    return int(argv[argv.index("--node-rank") + 1]) if "--node-rank" in argv else 0


def test_the_spelling_of_every_word_is_kept(library: Library) -> None:
    text = f"A=1 sglang serve {MODEL} --tp 2 --port=31000 --mem-fraction-static 0.80 --dp-size 1"
    made = of_text(text, library)
    assert (made.exact, made.problems) == (True, ())
    assert given_back(made.text, library) == (text.split()[3:], {"A": "1"})
    data = parse_source(made.text, "x.yaml").data
    assert data["topology"] == {"tensor": 2, "data": 1}
    assert data["serving"] == {"port": 31000}
    assert data["memory"] == {"mem_fraction_static": 0.8}
    assert data["extra"]["order"] == [
        "model-path", "tp", "port=", "mem-fraction-static 0.80", "dp-size",
    ]  # fmt: skip


def test_a_changed_value_wins_over_the_spelling_that_was_kept(library: Library) -> None:
    made = of_text(f"sglang serve {MODEL} --mem-fraction-static 0.80 --tp=2", library)
    changed = made.text.replace("mem_fraction_static: 0.8", "mem_fraction_static: 0.7")
    changed = changed.replace("tensor: 2", "tensor: 4").replace("gpus: 2", "gpus: 4")
    argv, _ = given_back(changed, library)
    assert argv == [*MODEL.split(), "--mem-fraction-static", "0.7", "--tp=4"]


def test_mechanisms_are_recognized_by_their_entries(library: Library) -> None:
    made = of_text(
        f"sglang serve {MODEL} --moe-runner-backend humming --kv-cache-dtype fp8_e4m3 "
        "--speculative-algorithm NEXTN --speculative-draft-model-path /models/m "
        "--speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4 "
        "--cuda-graph-bs-decode 1 2 4",
        library,
    )
    assert set(made.mechanisms) == {
        "humming-mxfp4-moe", "fp8-kv-cache", "nextn-mtp", "decode-cuda-graphs",
    }  # fmt: skip
    assert made.exact
    assert made.deployment.mechanisms["nextn-mtp"].options["steps"] == 3
    assert made.deployment.mechanisms["decode-cuda-graphs"].options["batch_sizes"] == [1, 2, 4]
    assert "args" not in parse_source(made.text, "x.yaml").data["extra"]


def test_nothing_is_recognized_in_a_plain_launch(library: Library) -> None:
    made = of_text(f"sglang serve {MODEL}", library)
    assert made.mechanisms == ()
    assert "optimizations" not in made.text


def test_a_key_in_clear_is_not_copied(library: Library) -> None:
    made = of_text(f"sglang serve {MODEL} --api-key sk-very-secret-key", library)
    assert "very-secret" not in made.text
    assert "very-secret" not in "".join(p.message + p.remedy for p in made.problems)
    assert [p.code for p in made.problems] == ["IMP005"]
    assert parse_source(made.text, "x").data["serving"]["api_key"] == {"env": "API_KEY"}


def test_a_key_from_a_variable_stays_one(library: Library) -> None:
    made = of_text(f"sglang serve {MODEL} --api-key ${{SERVE_KEY}}", library)
    assert (made.problems, made.exact) == ((), True)
    assert parse_source(made.text, "x").data["serving"]["api_key"] == {"env": "SERVE_KEY"}


def test_what_is_known_only_where_it_runs_is_left_out_and_said(library: Library) -> None:
    made = of_text(f"sglang serve {MODEL} --context-length $LENGTH --port 31000", library)
    assert [(p.code, p.position and p.position.column) for p in made.problems] == [("IMP001", 37)]
    assert "$LENGTH" not in made.text.replace("# ", "", 9).split("apiVersion")[1]
    assert "context-length is $LENGTH" in made.text


def test_of_repeated_arguments_the_last_is_kept(library: Library) -> None:
    made = of_text(f"sglang serve {MODEL} --tp 2 --tensor-parallel-size 4", library)
    assert [p.code for p in made.problems] == ["IMP003"]
    argv, _ = given_back(made.text, library)
    assert argv == [*MODEL.split(), "--tensor-parallel-size", "4"]


def test_stray_words_and_unknown_options_are_not_lost_in_silence(library: Library) -> None:
    made = of_text(f"sglang serve {MODEL} --tp-size 2 stray --zzz 1", library)
    assert [p.code for p in made.problems] == ["IMP002"]
    argv, _ = given_back(made.text, library)
    assert argv == [*MODEL.split(), "--tp-size", "2", "--zzz", "1"]


def test_several_hosts(library: Library) -> None:
    text = f"sglang serve {MODEL} --tp 16 --nnodes 2 --node-rank 1 --dist-init-addr 10.0.0.1:5000"
    made = of_text(text, library)
    assert made.exact
    assert made.deployment.hosts == 2
    assert given_back(made.text, library, rank=1)[0] == text.split()[2:]


def test_a_machine_that_adds_something_is_not_called_exact(library: Library) -> None:
    (command,) = read_text(f"sglang serve {MODEL} --tp-size 2", "run.sh").commands
    made = imported(command, library, hardware="h200")
    assert not made.exact
    assert [p.code for p in made.problems] == ["IMP004"]
    assert "CUDA_VISIBLE_DEVICES" in made.problems[0].message
    assert "Does NOT render back" in made.text


@pytest.mark.parametrize(
    ("words", "left"),
    [
        ("--port 0", "--port"),
        ("--mem-fraction-static 1.5", "--mem-fraction-static"),
        ("--host=", "--host"),
        ("--tp-size x", None),
    ],
)
def test_a_value_that_its_key_refuses_stays_and_is_said(
    words: str, left: str | None, library: Library
) -> None:
    made = of_text(f"sglang serve {MODEL} {words}", library)
    argv, _ = given_back(made.text, library)
    assert argv == [*MODEL.split(), *words.split()]
    if left:
        assert [p.code for p in made.problems] == ["IMP008"]
        assert made.problems[0].message.startswith(left)


def test_values_that_look_like_options(library: Library) -> None:
    made = of_text(f"sglang serve {MODEL} --served-model-name=--x", library)
    argv, _ = given_back(made.text, library)
    assert argv == [*MODEL.split(), "--served-model-name=--x"]
    assert made.exact


def test_a_home_directory_is_known_only_where_it_runs(library: Library) -> None:
    made = of_text("sglang serve --model-path ~/m --tp-size 2", library)
    assert {p.code for p in made.problems} == {"IMP008"}


def test_rules_about_an_unspecified_machine_and_model_are_silent(
    library: Library, validators: Validators
) -> None:
    for words in (
        "--moe-runner-backend flashinfer_mxfp4",
        "--moe-runner-backend humming",
        "--moe-runner-backend triton",
        "--tp-size 16 --nnodes 2 --node-rank 0 --dist-init-addr 192.0.2.1:5000",
    ):
        made = of_text(f"sglang serve {MODEL} {words}", library)
        found = [d for d in judge(made.deployment, validators) if d.severity != "info"]
        assert [d.code for d in found if d.code != "NET107"] == [], words
