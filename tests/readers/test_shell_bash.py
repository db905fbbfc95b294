"""Scripts compared with what bash itself starts: each word and each exported variable."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from configurator.errors import Position
from configurator.readers.shell import run_script
from configurator.words import Setting, Word

_RECORDER = """#!/bin/sh
{ for a; do printf '%s\\0' "$a"; done; printf '\\1'; env -0; printf '\\2'; } >>"$RECORD"
"""
_OF_THE_MACHINE = ("PATH", "RECORD", "PWD", "OLDPWD", "SHLVL", "_")

_WORDS = [
    "s a `# why` --bogus 2",
    "s a --tp 2 `# one` \\\n  --dp 2 `# two, with $(x) 'q` \\\n  --last",
    "s a $( ) $(# no\n) `` b \"`# c`\" `# d`x",
    "s --tp-size 2 \\ \n  --dp-size 2",
    "A=(1 2 3 4); unset 'A[2]'; s \"${A[@]}\" \"${!A[@]}\" \"${A[@]:1:2}\"; unset A[-1]; s ${A[@]}",
    "A=(0 1 2 3 4); unset 'A[0]' 'A[3]'; s \"${A[@]:1}\" - \"${A[@]:2:2}\" - \"${A[@]: -2:1}\"",
    "declare -A M=([a]=1 [b]=2); unset 'M[a]'; s \"${M[@]}\"; k=b; unset \"M[$k]\"; s ${#M[@]}",
    "A[3]=x; A[1]=y; A+=(z); s ${!A[@]}; A[1]+=q; s ${A[1]}; unset 'A[@]'; s ${A-gone}",
    "declare -i N=2+3; N+=1; s $N; N=4*2; s $N; declare +i N; N+=1; s $N",
    "declare -l L=ABC; s $L; L+=DEF; s $L; declare -u U=abc; U+=def; s $U",
    "a=3; s $[a+1] \"$[ 2 * (a+1) ]\" x$[a]y",
    "i01=a i02=b i03=c i01x=d i02x=e; i=5; s m$i{01..03} $i{01,02}x",
    "X=q Xa=1 Xb=2; s {a,b}$X $X{a,b} ${X}{1..2} {a,b}\"$X\" {a..e..2} {e..a..2}",
    "set -- 1 2 3; s \"${@: -1}\" \"${@: -2:1}\" \"${@:4}\" \"${@:3:5}\"",
    "A=(a b); s \"${A[@]/#/x}\" \"${A[@]/%/y}\" \"${A[@]//}\"",
    "n=3; while ((n--)); do s $n; [ $n = 1 ] && break; done; s end $n",
    "s $ a $; s a$",
    "f() { while (($#)); do s $1; shift; done; }; f 1 2; for i in 1 2; do f $i x; done",
    "f() { local y; s \"${y-unset}\" \"${y:-e}\"; y=1; s $y; local -a z; z+=(1); s ${z[@]}; }; f",
    "x=aXbXc; s ${x^^[a-b]} ${x,,X} ${x^[b]} ${x^a}",
    "A=(); s \"${A[@]+x}\" \"${A[@]+\"${A[@]}\"}\"; A=(1 2); s \"${A[@]+\"${A[@]}\"}\"",
    "A[3]=x; A[1]=y; s ${!A[@]}; A+=([7]=z y); s \"${!A[@]}\"",
]  # fmt: skip

_ENVIRONMENTS = [
    "set -a; A=1; set +a; B=2; s",
    "set -o allexport; A=1; set +o allexport; B=2; s",
    "A=1; export A=${A-1}2 B=${A:+2}; s",
    "a=x; declare a=y b=$a; s $a $b; readonly a=z c=$a; s $a $c",
    "declare -i N=2+3; export N; s; N=7*2; s",
]

_STATEMENTS = [
    "exec 3<>/dev/null; s x; cat <>/dev/null; exec 3>&-; s y",
    "coproc s a b; wait",
    "coproc N { s a b; }; wait",
    "trap 's launch_server $X' EXIT; X=1; s y; exit 0",
    "l() { s launch_server; }; trap l EXIT; (exit 3); s y",
    "(trap 's launch_server in' EXIT; s a); s b",
    "f() { s a; }; export -f f; bash -c f; g() { s b; }; bash -c g || true",
    "CMD=(s a 'b c' \"it's\" ''); eval \"${CMD[@]@Q}\"",
    "set -e; false || true; s x; if false; then s y; fi; false && s z; s w; (false; s q); s r",
    "set -euo pipefail; s a; false; s x",
    "set -o errexit; f() { false; s in; }; f || s or; s a; ! true; s b; f; s c",
    "set -e; f() { [ 1 = 2 ] && s no; }; s a; f; s c",
    "set -e; n=0; ((n++)) || true; s $n; ((n=0)); s no",
    "set -e; bash -c 'exit 1' || s a; bash -c 'false; s b'; s c; bash -c 'exit 1'; s no",
    "set -e; set +e; false; s a; while false; do :; done; s b",
    "bash -ec 'false; s a'; bash -o errexit -c 'false; s b'; s c; bash -c 'false; s d'",
    "case a in a) s 1 ;& b) s 2 ;; esac; case a in a) s 3 ;& esac; s 4",
    "case a in a) s 1 ;;& b) s 2 ;; a) s 4;; esac",
    "if [ a \\< b ]; then s 1; else s 2; fi; [ b '>' a ] && s 3; [ ! \\( 1 = 2 \\) -a x ] && s 4",
    "(((1))) && s 1; if (( (((3)) > 2) )); then s 2; fi; for ((i=0;i<((2));i++)); do s $i; done",
    "! { true; } || s 5; if ! { true && false; }; then s 1; fi; f() { s 4; }; f",
    "! { { false; }; } && s 6; { s 7; { s 8; }; }",
    "s {a,b} } { x{y}z a{b ] [[ a; echo }; s end",
    "X=$(case a in a) echo b;; esac); s x",
    "if [[ a == a &&\n b == b ]]; then s 1; fi; [ 1 -eq 1 \\\n ] && s 2; [[ a == ']]' ]] || s f",
]

_DOCUMENTS = [
    "ARGS=$(cat <<EOF\n--a 1\n--b 2\nEOF\n)\ns $ARGS",
    'X=7; A=$(cat <<EOF\n--a $X "q" \\$Y \\\\\n--b \'z\' it\'s (\nEOF\n); s $A; s "$A"',
    "A=$(cat <<'EOF'\n--a $X \"q\" \\$Y\nEOF\n); s $A",
    "A=$(cat <<-'X'\n\t\ta $q\n\tb\n\tX\n); s \"$A\"",
    's "$(cat <<X\na b\n\nX\n)" end',
    'cat <<"EOF" >/dev/null; s q\ndon\'t " `# (\nEOF\ns z \\\n  b',
    "cat <<A <<B >/dev/null && s c\n;;\nA\n((\nB\ns d; s 3 3<<E 4\nq\nE\n",
    "X=$(true # it's\n); s q",
]


def _bash(snippet: str, folder: Path) -> list[tuple[list[str], dict[str, str]]]:
    record, program = folder / "record", folder / "s"
    record.touch()
    program.write_text(_RECORDER)
    program.chmod(0o755)
    env = {"PATH": f"{folder}:/usr/bin:/bin", "RECORD": str(record)}
    command = ["bash", "-c", snippet]
    quiet = subprocess.DEVNULL
    subprocess.run(
        command, env=env, stdin=quiet, stdout=quiet, stderr=quiet, timeout=20, check=False
    )
    calls: list[tuple[list[str], dict[str, str]]] = []
    for call in record.read_text().split("\2")[:-1]:
        words, variables = call.split("\1", 1)
        pairs = (line.split("=", 1) for line in variables.split("\0")[:-1])
        set_here = {
            name: value
            for name, value in pairs
            if name not in _OF_THE_MACHINE and not name.startswith("BASH_FUNC")
        }
        calls.append((words.split("\0")[:-1], set_here))
    return calls


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize("snippet", _WORDS + _ENVIRONMENTS + _STATEMENTS + _DOCUMENTS)
def test_what_bash_starts_is_found(snippet: str, tmp_path: Path) -> None:
    expected = _bash(snippet, tmp_path)
    assert expected
    result = run_script(Word.at(snippet, Position("run.sh", 1, 1)))
    found = [one for one in result.found if one.words[0].text == "s"]
    assert [([w.text for w in one.words[1:]], _values(one.env)) for one in found] == expected
    assert not any(word.unknown for one in found for word in one.words)
    assert result.problems == ()


def _values(env: dict[str, Setting]) -> dict[str, str | None]:
    return {name: setting.value for name, setting in env.items()}
