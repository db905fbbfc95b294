"""The registry of variables, its deprecations in every form, and reads beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from configurator.engine.catalogue import Catalogue, Retired, Variable
from configurator.engine.sources import SourceTree
from configurator.engine.variables import extract_env_read, extract_retired, extract_variables

Tree = Callable[..., Path]
SERVER_ARGS = {"sglang/srt/server_args.py": ""}


def test_the_registry(tree: Tree) -> None:
    path = tree(
        SERVER_ARGS
        | {
            "sglang/srt/environ.py": """
            class Level:
                OFF = 0
            class Envs:
                SGLANG_A = EnvBool(False)
                SGLANG_B: EnvInt = EnvInt(2**31)
                SGLANG_C = EnvStr(lambda: compute())
                SGLANG_D = EnvTuple(("x", "y"))
                SGLANG_E = EnvFloat(default=0.5)
                SGLANG_F = EnvInt(Level.OFF)
                if True:
                    SGLANG_G = EnvBoolWithAlias(True, deprecated_name="SGLANG_OLD_G")
                other = 3
            """,
            "sglang/srt/reader.py": """
            use(envs.SGLANG_A, envs.SGLANG_B.get(), envs.SGLANG_C, envs.SGLANG_D, envs.SGLANG_E)
            use(envs.SGLANG_F, envs.SGLANG_G)
            """,
        }
    )
    source = SourceTree(path)
    assert extract_variables(source) == [
        Variable("SGLANG_A", "bool", False),
        Variable("SGLANG_B", "int", 2147483648),
        Variable("SGLANG_C", "str", None),
        Variable("SGLANG_D", "tuple", ["x", "y"]),
        Variable("SGLANG_E", "float", 0.5),
        Variable("SGLANG_F", "int", 0),
        Variable("SGLANG_G", "bool", True),
    ]
    assert extract_retired(source) == [Retired("SGLANG_OLD_G", "SGLANG_G")]


def test_variables_that_nothing_reads(tree: Tree) -> None:
    path = tree(
        SERVER_ARGS
        | {
            "sglang/srt/environ.py": """
            class Envs:
                SGLANG_READ = EnvBool(False)
                SGLANG_READ_HERE = EnvBool(False)
                SGLANG_UNREAD = EnvBool(False)
                SGLANG_UNREAD_TOO = EnvBool(False)
                OTHERS_NAME = EnvBool(False)
            use(envs.SGLANG_READ_HERE)
            """,
            "sglang/srt/reader.py": "use(envs.SGLANG_READ, SGLANG_UNREAD_TOO_LONG)",
        }
    )
    unread = {v.name for v in extract_variables(SourceTree(path)) if v.unread}
    assert unread == {"SGLANG_UNREAD", "SGLANG_UNREAD_TOO"}


def test_what_becomes_of_the_old_value(tree: Tree) -> None:
    path = tree(
        SERVER_ARGS
        | {
            "sglang/srt/environ.py": """
            _DEPRECATED_ENVS = {
                "SGLANG_NO_X": _DeprecatedEnv(replacement="SGLANG_X", transform=_invert_bool),
                "SGLANG_Y_MS": _DeprecatedEnv(replacement="SGLANG_Y", transform=None),
            }
            """
        }
    )
    assert extract_retired(SourceTree(path)) == [
        Retired("SGLANG_NO_X", "SGLANG_X", change="invert_bool"),
        Retired("SGLANG_Y_MS", "SGLANG_Y"),
    ]


def test_deprecations_of_every_form(tree: Tree) -> None:
    path = tree(
        SERVER_ARGS
        | {
            "sglang/srt/environ.py": """
            _DEPRECATED_ENVS = {
                "SGLANG_P": _DeprecatedEnv("SGLANG_NEW_P"),
                "SGLANG_Q": _DeprecatedEnv(note="Use " "--q."),
                "SGLANG_R": _DeprecatedEnv(),
            }
            def _print_deprecated_env(new_name, old_name=None): ...
            def _warn_deprecated_env_to_cli_flag(env_name, suggestion): ...
            def _handle():
                _print_deprecated_env("SGLANG_NEW_S", "SGLANG_S")
                _warn_deprecated_env_to_cli_flag("SGLANG_T", "Use '--t'.")
                _deprecated_ms_to_s = {"SGLANG_U_MS": "SGLANG_U"}
            """
        }
    )
    assert extract_retired(SourceTree(path)) == [
        Retired("SGLANG_S", "SGLANG_NEW_S"),
        Retired("SGLANG_T", None, "Use '--t'."),
        Retired("SGLANG_U_MS", "SGLANG_U"),
        Retired("SGLANG_P", "SGLANG_NEW_P"),
        Retired("SGLANG_Q", None, "Use --q."),
        Retired("SGLANG_R"),
    ]


def test_the_order_of_parameters_is_read_from_the_definition(tree: Tree) -> None:
    path = tree(
        SERVER_ARGS
        | {
            "sglang/srt/environ.py": """
            def _print_deprecated_env(old_name, new_name): ...
            _print_deprecated_env("SGLANG_S", "SGLANG_NEW_S")
            """
        }
    )
    assert extract_retired(SourceTree(path)) == [Retired("SGLANG_S", "SGLANG_NEW_S")]


def test_reads_beside_the_registry(tree: Tree) -> None:
    path = tree(
        SERVER_ARGS
        | {
            "sglang/srt/a.py": """
            # SGLANG_IN_A_COMMENT
            NAME = "SGLANG_BY_CONSTANT"
            x = os.environ.get("HF_HOME"), os.getenv('NVSHMEM_X'), os.environ["SGLANG_BY_INDEX"]
            y = get_bool_env_var(
                "SGLANG_BY_HELPER", "true")
            help = "set SGLANG_IN_A_TEXT to 1"
            """,
            "sglang/kernels/k.cu": 'std::getenv("SGL_NATIVE")',
            "sglang/test/t.py": 'os.getenv("SGLANG_ONLY_IN_TESTS")',
            "sglang/notes.md": '"SGLANG_IN_NOTES"',
        }
    )
    assert extract_env_read(SourceTree(path)) == {
        "SGLANG_BY_CONSTANT", "HF_HOME", "NVSHMEM_X", "SGLANG_BY_INDEX", "SGLANG_BY_HELPER",
        "SGL_NATIVE",
    }  # fmt: skip


def test_names_whose_end_is_filled_in(tree: Tree) -> None:
    path = tree(
        SERVER_ARGS
        | {"sglang/srt/a.py": """x = os.getenv(f"SGLANG_CACHE_{suffix}"), f"SGLANG_B{suffix}" """}
    )
    found = extract_env_read(SourceTree(path))
    assert found == {"SGLANG_CACHE_"}
    known = Catalogue.of("1", [], env_read=found)
    assert known.knows_env("SGLANG_CACHE_BN")
    assert not known.knows_env("SGLANG_CACHED")


def test_compiled_extensions(tree: Tree) -> None:
    path = tree(SERVER_ARGS | {"sglang/srt/a.py": 'os.getenv("SGLANG_PORT")'})
    (path / "sglang" / "srt" / "rust.so").write_bytes(
        b"\x00\xffSGLANG_PAYLOADlower SGLANG_ONESGLANG_TWO\x00SGL_MM_THREADS SGLANG_PORTU"
        b"SGLANG_DECLAREDX XSGLANG_NOT SGLANG_PORT_RANGE SGLANG_"
    )
    assert extract_env_read(SourceTree(path), ["SGLANG_DECLARED"]) == {
        "SGLANG_PORT", "SGLANG_PAYLOAD", "SGLANG_ONE", "SGLANG_TWO", "SGL_MM_THREADS",
        "SGLANG_PORT_RANGE",
    }  # fmt: skip


def test_releases_without_a_registry_declare_nothing(tree: Tree) -> None:
    source = SourceTree(tree(SERVER_ARGS))
    assert (extract_variables(source), extract_retired(source)) == ([], [])
