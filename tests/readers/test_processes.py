"""From processes to launches of the engine, whatever is wrapped around them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from configurator.errors import Position
from configurator.readers.processes import Result, commands_of
from configurator.readers.reading import Invocations
from configurator.readers.splitting import split_words
from configurator.words import Invocation, Setting, Word


def words(line: str) -> tuple[Word, ...]:
    return split_words(Word.at(line, Position("f", 1, 1))).words


def run(script: Word, given: Mapping[str, str], env: Mapping[str, Setting]) -> Invocations:
    """A shell that knows nothing but words between line breaks."""
    found: list[Invocation] = []
    at = 0
    for line in script.text.split("\n"):
        found.append(Invocation(split_words(script.part(at, at + len(line))).words, dict(env)))
        at += len(line) + 1
    return Invocations(tuple(found))


def read(line: str, given: Mapping[str, str] | None = None, **env: str) -> Result:
    settings = {n: Setting(n, v, Position("f", 9, 1)) for n, v in env.items()}
    return commands_of(Invocation(words(line), settings), run, given)


@pytest.mark.parametrize(
    "wrapper",
    [
        "exec",
        "exec -a name",
        "command -p",
        "nohup",
        "sudo -E",
        "sudo -E -u root --",
        "time -p",
        "/usr/bin/time -v -o out",
        "numactl --cpunodebind=0 --membind=0",
        "numactl -N 0 -m 0",
        "numactl --interleave all",
        "taskset -c 0-31",
        "taskset 0xff",
        "nice -n 10",
        "ionice -c 2 -n 0",
        "ionice -c2",
        "chrt -f 50",
        "stdbuf -oL -eL",
        "stdbuf -o L",
        "timeout 10",
        "timeout -k 5 --signal=INT 3600",
        "setsid -w",
        "tini -g --",
        "/usr/bin/dumb-init --",
        "catchsegv",
        "strace -f -o out",
        "nsys profile -t cuda,nvtx -o report --force-overwrite true --trace-fork-before-exec=true",
        "ncu --set full -f -o report --target-processes all",
        "gdb -ex run --args",
        "uv run",
        "uv run --with sglang --no-sync",
        "uvx --from sglang",
        "poetry run",
        "conda run -n sgl --no-capture-output",
        "srun -N2 --ntasks-per-node=1 --exclusive --mpi pmix",
        "mpirun -np 2 --allow-run-as-root -mca btl tcp -H a:1,b:1",
        "env -u HOME --",
        "flock -n /tmp/lock",
        "screen -dmS llm",
        "systemd-run --user --unit=x -p A=b",
        "tmux new-session -d -s llm",
        "env -C /tmp",
        "nohup setsid nice numactl -N 0",
        "bash /configurator/entry.sh",
        "bash -p /configurator/entry.sh",
        "/configurator/entry.sh",
    ],
)
def test_wrappers_are_stepped_over_with_their_options(wrapper: str) -> None:
    commands, problems = read(f"{wrapper} sglang serve --tp 8 --host 0.0.0.0", A="1")
    assert [word.text for word in commands[0].argv] == ["--tp", "8", "--host", "0.0.0.0"]
    assert commands[0].entry == "serve"
    assert commands[0].env["A"].value == "1"
    assert commands[0].position == Position("f", 1, len(wrapper) + 2)
    assert problems == ()


def test_a_secret_variable_of_the_entry_script_is_the_engines_and_nobody_knows_it() -> None:
    keys = "HF_TOKEN=env:CONFIGURATOR_SECRET_1"
    commands, problems = read(
        "bash -p /configurator/entry.sh sglang serve --tp 8",
        CONFIGURATOR_KEYS=keys, CONFIGURATOR_SECRET_1="x",
    )  # fmt: skip
    assert {name: one.value for name, one in commands[0].env.items()} == {"HF_TOKEN": None}
    assert problems == ()


@pytest.mark.parametrize(
    ("program", "entry"),
    [
        ("python -m sglang.launch_server", "launch_server"),
        ("python3 -u -O -X dev -m sglang.launch_server", "launch_server"),
        ("/opt/venv/bin/python3.12 -Wignore -msglang.launch_server", "launch_server"),
        ("python3 -um sglang.launch_server", "launch_server"),
        ("python3 /sgl/python/sglang/launch_server.py", "launch_server"),
        ("./launch_server.py", "launch_server"),
        ("/opt/venv/bin/sglang serve", "serve"),
        ("python /opt/venv/bin/sglang serve", "serve"),
        ("python -m sglang.cli.main serve", "serve"),
        ("uv run -m sglang.launch_server", "launch_server"),
        ("bash -c 'sglang serve --tp 1'", "serve"),
        ("/bin/sh -lc 'python -m sglang.launch_server --tp 1'", "launch_server"),
        ("tmux new -d -s llm 'sglang serve --tp 1'", "serve"),
        ("bash -o pipefail -exc 'sglang serve --tp 1'", "serve"),
        ("bash --login -c 'bash -c \"sglang serve --tp 1\"'", "serve"),
    ],
)
def test_programs_that_are_the_engine(program: str, entry: str) -> None:
    line = program if "-tp" in program or "--tp" in program else f"{program} --tp 1"
    commands, problems = read(line)
    assert [(c.entry, [word.text for word in c.argv]) for c in commands] == [(entry, ["--tp", "1"])]
    assert problems == ()


@pytest.mark.parametrize(
    "line",
    [
        "sglang",
        "sglang version",
        "python",
        "python -c 'import sglang' -m sglang.launch_server",
        "python -m",
        "python bench.py -m sglang.launch_server",
        "python -m sglang.bench_serving --model x",
        "bash run.sh -c 'sglang serve'",
        "bash",
        "bash -c",
        "command -v sglang serve",
        "gdb -p 12 sglang serve",
        "docker compose up",
        "docker",
        "docker run",
        "docker stop sglang serve",
        "kubectl apply -f x.yaml",
        "echo sglang serve --tp 8",
        "pkill -f sglang.launch_server",
        "env A=1",
        "sudo",
        "nohup",
        "torchrun train.py",
        "timeout 10",
    ],
)
def test_what_starts_no_engine_gives_nothing(line: str) -> None:
    assert read(line) == ((), ())


def test_env_sets_drops_and_clears_variables() -> None:
    (command,), problems = read("env B=2 C=a=b sglang serve", A="1")
    assert {n: s.value for n, s in command.env.items()} == {"A": "1", "B": "2", "C": "a=b"}
    assert command.env["B"].position == Position("f", 1, 5)
    assert problems == ()
    (command,), problems = read("env -i B=2 sglang serve", A="1")
    assert {n: s.value for n, s in command.env.items()} == {"B": "2"}
    assert problems == ()
    (command,), _ = read("env -u A sglang serve", A="1", Z="2")
    assert list(command.env) == ["Z"]
    (command,), _ = read("env -S 'D=4 sglang serve --tp 2'")
    assert command.env["D"].value == "4"
    assert [word.text for word in command.argv] == ["--tp", "2"]


def test_sudo_drops_what_the_file_sets_and_says_so() -> None:
    (command,), problems = read("sudo C=3 sglang serve", A="1", B="2")
    assert {n: s.value for n, s in command.env.items()} == {"C": "3"}
    assert [(p.code, p.position) for p in problems] == [("LNT008", Position("f", 9, 1))]
    message = "A and 1 more are set here, but sudo starts the engine without"
    assert problems[0].message == message
    assert problems[0].remedy == "use `sudo -E`, or `sudo --preserve-env=A,B`"
    assert read("sudo sglang serve", A="1")[1][0].message.startswith("A is set here, but")
    (command,), problems = read("sudo --preserve-env=A sglang serve", A="1")
    assert command.env["A"].value == "1"
    assert problems == ()
    assert read("sudo apt install x", A="1") == ((), ())


@pytest.mark.parametrize(
    ("line", "lost"),
    [
        ("sudo docker run i sglang serve", ""),
        ("sudo docker run -e A=1 i sglang serve", ""),
        ("sudo docker run -e B i sglang serve", "B is"),
        ("sudo docker exec c sglang serve", ""),
        ("sudo docker exec -e A -e B c sglang serve", "A and 1 more are"),
        ("sudo bash -c 'docker run i sglang serve'", ""),
        ("sudo bash -c 'docker run -e A i sglang serve'", "A is"),
        ("sudo bash -c 'sglang serve'", "A and 1 more are"),
        ("sudo kubectl exec p -- sglang serve", ""),
    ],
)
def test_sudo_takes_nothing_from_a_container(line: str, lost: str) -> None:
    (_,), problems = read(line, A="1", B="2")
    assert [p.message.partition(" set here")[0] for p in problems] == ([lost] if lost else [])
    assert [p.code for p in problems] == (["LNT008"] if lost else [])


def test_env_takes_names_that_a_shell_does_not() -> None:
    (command,), _ = read("env 'A-B=1' 'C.D=x=y' sglang serve --tp 2")
    assert {n: s.value for n, s in command.env.items()} == {"A-B": "1", "C.D": "x=y"}
    assert command.env["A-B"].position == Position("f", 1, 6)
    assert [w.text for w in command.argv] == ["--tp", "2"]
    assert read("env =1 sglang serve") == ((), ())


@pytest.mark.parametrize(
    ("line", "env", "image"),
    [
        ("kubectl exec pod -- sglang serve --tp 2", {}, None),
        ("kubectl exec pod sglang serve --tp 2", {}, None),
        ("kubectl -n ns exec -it pod -c main -- env B=2 sglang serve --tp 2", {"B": "2"}, None),
        ("kubectl exec -n ns deploy/x --container=main -i -t -- sglang serve --tp 2", {}, None),
        ("oc exec pod -- bash -c 'sglang serve --tp 2'", {}, None),
        ("kubectl run x --image=lmsysorg/sglang:v1 --env=B=2 -- sglang serve --tp 2", {"B": "2"},
         "lmsysorg/sglang:v1"),
        ("kubectl run x --image i --command -- sglang serve --tp 2", {}, "i"),
        ("apptainer exec --nv -B /a:/b x.sif sglang serve --tp 2", {"A": "1"}, "x.sif"),
        ("singularity -q exec --nv x.sif sglang serve --tp 2", {"A": "1"}, "x.sif"),
        ("apptainer exec --env B=2,C=3 x.sif sglang serve --tp 2",
         {"A": "1", "B": "2", "C": "3"}, "x.sif"),
        ("apptainer exec --cleanenv --env B=2 x.sif sglang serve --tp 2", {"B": "2"}, "x.sif"),
        ("apptainer exec -C x.sif sglang serve --tp 2", {}, "x.sif"),
        ("apptainer run --nv docker://lmsysorg/sglang:v1 sglang serve --tp 2", {"A": "1"},
         "docker://lmsysorg/sglang:v1"),
        ("docker compose -f c.yaml exec -T -e B=2 llm sglang serve --tp 2", {"B": "2"}, None),
        ("docker compose run --rm -e A llm sglang serve --tp 2", {"A": "1"}, None),
    ],
)  # fmt: skip
def test_pods_and_image_files(line: str, env: dict[str, str], image: str | None) -> None:
    (command,), problems = read(line, A="1")
    assert [w.text for w in command.argv] == ["--tp", "2"]
    assert {n: s.value for n, s in command.env.items()} == env
    assert command.image == image
    assert problems == ()


@pytest.mark.parametrize(
    "line",
    [
        "kubectl exec pod --",
        "kubectl exec pod",
        "kubectl exec",
        "kubectl",
        "kubectl get pods sglang serve",
        "kubectl cp pod:x -- sglang serve",
        "apptainer exec x.sif",
        "apptainer build x.sif sglang serve",
        "singularity",
        "docker compose up sglang serve",
        "docker compose",
        "docker compose exec llm redis",
    ],
)
def test_pods_and_image_files_without_an_engine(line: str) -> None:
    assert read(line) == ((), ())


@pytest.mark.parametrize(
    ("line", "column"),
    [
        ("'python3 -m sglang.launch_server --tp 2'", 1),
        ("nohup 'sglang serve' --tp 2", 7),
        ("nice 'env B=1 sglang serve' --tp 2", 6),
        ("docker run lmsysorg/sglang:v1 'sglang serve --tp 2'", 31),
    ],
)
def test_a_command_that_is_one_word(line: str, column: int) -> None:
    (command,), (problem,) = read(line)
    assert [w.text for w in command.argv] == ["--tp", "2"]
    assert (problem.code, problem.position) == ("LNT011", Position("f", 1, column + 1))
    assert "is one word, so no program has that name" in problem.message


@pytest.mark.parametrize(
    "line",
    [
        "'redis server'",
        "'sglang'",
        "echo 'sglang serve'",
        "'sglang bench' serve",
        "docker run own/image 'sglang serve --tp 2'",
        "'a b' sglang serve",
    ],
)
def test_words_with_blanks_that_start_nothing(line: str) -> None:
    assert read(line) == ((), ())


def test_a_shell_that_gets_options_after_its_script() -> None:
    (command,), (problem,) = read("bash -c 'sglang serve' --tp 2")
    assert command.argv == ()
    assert (problem.code, problem.position) == ("LNT010", Position("f", 1, 24))
    for line in (
        "bash -c 'sglang serve' name",
        "bash -c 'sglang serve' -- x",
        "bash -c 'sglang serve $@' -- --tp 2",
        "bash -c 'redis' --tp 2",
    ):
        assert read(line)[1] == ()


def test_launchers_of_many_processes_set_variables_and_the_image() -> None:
    (command,), _ = read("mpirun -x NCCL_DEBUG=INFO -x PATH -np 2 sglang serve")
    assert {n: s.value for n, s in command.env.items()} == {"NCCL_DEBUG": "INFO"}
    (command,), _ = read("srun --export=ALL,A=1 --container-image=lmsysorg/sglang:v1 sglang serve")
    assert command.env["A"].value == "1"
    assert command.image == "lmsysorg/sglang:v1"


def test_arguments_after_the_script_become_its_parameters() -> None:
    scripts: list[Word] = []

    def keep(script: Word, given: Mapping[str, str], env: Mapping[str, Setting]) -> Invocations:
        scripts.append(script)
        return Invocations()

    line = """bash -c 'exec sglang serve "$@"' -- --tp "it's" """
    commands_of(Invocation(words(line)), keep)
    assert scripts[0].text == "set -- '--tp' 'it'\\''s'\nexec sglang serve \"$@\""
    at = scripts[0].text.index("exec")
    assert scripts[0].position_at(at) == Position("f", 1, 10)
    assert scripts[0].position_at(scripts[0].text.index("--tp")) == Position("f", 1, 37)


def test_scripts_in_scripts_end() -> None:
    def again(script: Word, given: Mapping[str, str], env: Mapping[str, Setting]) -> Invocations:
        return Invocations((Invocation(words("bash -c again")),))

    commands, problems = commands_of(Invocation(words("bash -c x")), again)
    assert commands == ()
    assert [p.code for p in problems] == ["LNT003"]
    assert read("nohup " * 100 + "sglang serve") == ((), ())


def test_a_first_word_that_nobody_knows_is_assumed_to_be_harmless() -> None:
    unknown = Word.at("${NUMA}", Position("f", 1, 1), unknown=True)
    commands, _ = commands_of(Invocation((unknown, *words("sglang serve --tp 1"))), run)
    assert commands[0].conditions == ("${NUMA} is empty, or starts the words after it",)
    python = Word.at("$PYTHON", Position("f", 3, 5), unknown=True)
    commands, _ = commands_of(Invocation((python, *words("-m sglang.launch_server --tp 1"))), run)
    assert commands[0].conditions == ("$PYTHON is a Python interpreter",)
    assert commands[0].position == Position("f", 3, 5)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("vllm serve org/model --tp 8", "LNT006"),
        ("python -m vllm.entrypoints.openai.api_server --model x", "LNT006"),
        ("docker run vllm/vllm-openai:latest --model x", "LNT006"),
        ("torchrun --nproc 2 -m sglang.launch_server", "LNT007"),
        ("python -m torch.distributed.run -m sglang.launch_server", "LNT007"),
        ("python -m sglang_router.launch_server --model x", "LNT007"),
        ("docker run registry/own:1 --model-path x --tp 8", "LNT007"),
    ],
)
def test_other_launches_are_named(line: str, code: str) -> None:
    commands, problems = read(line)
    assert commands == ()
    assert [p.code for p in problems] == [code]
    assert problems[0].position is not None
    assert problems[0].remedy
