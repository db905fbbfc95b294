"""Scripts as people write them: what they start, where each word stands, what is assumed."""

from __future__ import annotations

import shutil
import subprocess
import time

import pytest

from configurator.errors import Position
from configurator.readers.reading import Invocations
from configurator.readers.shell import run_script
from configurator.words import Setting, Span, Word


def _read(text: str, **given: str) -> Invocations:
    return run_script(Word.at(text, Position("run.sh", 1, 1)), given)


def _words(text: str, **given: str) -> list[list[str]]:
    return [[word.text for word in one.words] for one in _read(text, **given).found]


def _places(text: str) -> list[tuple[str, int, int]]:
    found = _read(text).found[-1].words
    return [(word.text, word.position.line, word.position.column) for word in found]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("serve $'a\\nb' \"a\\\"b\" 'x'\"'\"'y' a\\ b", [["serve", "a\nb", 'a"b', "x'y", "a b"]]),
        ('A=(a "b c" # no\n d)\nA+=(e)\ns "${A[@]}" ${#A[@]}', [["s", "a", "b c", "d", "e", "4"]]),
        ('A=()\ns "${A[@]}" ${A[@]+"${A[@]}"}', [["s"]]),
        ("E='--a 1'\nE=\"$E --b 2\"\ns $E", [["s", "--a", "1", "--b", "2"]]),
        ("P=a/b.tar.gz; s ${P##*/} ${P%.*} ${P/b/X} ${P^^} ${#P}",
         [["s", "b.tar.gz", "a/b.tar", "a/X.tar.gz", "A/B.TAR.GZ", "10"]]),
        ("s ${X:-\"a b\" c} ${X:+y} ${X-d}", [["s", "a b", "c", "d"]]),
        (": ${X:=v}; s $X", [["s", "v"]]),
        ('f() { local a=$1; shift; s "$a" "$@" $#; }; f 1 "2 3"; f 4',
         [["s", "1", "2 3", "1"], ["s", "4", "0"]]),
        ("i=0; while [ $i -lt 2 ]; do s $i; i=$((i+1)); done", [["s", "0"], ["s", "1"]]),
        ("for ((i=0;i<2;i++)); do s $i; done", [["s", "0"], ["s", "1"]]),
        ("for i in {0..1} {a,b}c; do s $i; done",
         [["s", "0"], ["s", "1"], ["s", "ac"], ["s", "bc"]]),
        ("case ab in x|y) a;; a*) b;; *) c;; esac", [["b"]]),
        ("[[ ( 1 -lt 2 ) && ! ( a == b ) ]] && a; [ 1 = 2 ] || b; ((0)) || c",
         [["a"], ["b"], ["c"]]),
        ("set -- a b; shift; s $1 $#", [["s", "b", "1"]]),
        ("(exit 1); a; exit 0; b", [["a"]]),
        ("exec serve x; never", [["exec", "serve", "x"]]),
        ("(X=1; a $X) & s ${X-none}", [["a", "1"], ["s", "none"]]),
        ("a > out b 2>&1 c", [["a", "b", "c"]]),
        ("cat <<EOF | s x\nb $(c)\nEOF\nd", [["cat"], ["s", "x"], ["d"]]),
        ("s \\\n  --a 1 \\\n  # --b 2 \\\n  --c 3", [["s", "--a", "1"], ["--c", "3"]]),
        ("bash -c 'a b && c'; sh -ec \"d\"", [["a", "b"], ["c"], ["d"]]),
        ("eval \"a 'b c'\"", [["a", "b c"]]),
        ("while true; do a; sleep 5; done", [["a"], ["sleep", "5"]]),
        ("s ~/m *.json $((CONC * 2))", [["s", "~/m", "*.json", "$((CONC * 2))"]]),
        ("# only a comment", []),
    ],
)  # fmt: skip
def test_words_of_what_a_script_starts(script: str, expected: list[list[str]]) -> None:
    assert _words(script) == expected


def test_given_values_win_over_defaults() -> None:
    assert _words("s ${PORT:-80}", PORT="31000") == [["s", "31000"]]
    assert _words("s ${PORT:-80}", PORT="") == [["s", "80"]]
    assert _words("s ${PORT-80}x", PORT="") == [["s", "x"]]


def test_what_nobody_can_know_stays_as_it_is_written() -> None:
    (one,) = _read('X=$(nproc)\ns $X "${API_KEY}" --u=$HOME/x "${A[@]}" $! ${E}').found
    assert [(word.text, word.unknown) for word in one.words] == [
        ("s", False), ("$(nproc)", True), ("${API_KEY}", True), ("--u=$HOME/x", True),
        ("${A[@]}", True), ("$!", True), ("${E}", True),
    ]  # fmt: skip


def test_every_word_has_the_place_where_it_is_written() -> None:
    script = """A=(--tp 8
  "x y")
E="--a 1"
f() {
  serve "$1" "${A[@]}" $E ${P:-8888} \\
    --last é"ü" z $((1+1))
}
f arg"""
    assert _places(script) == [
        ("serve", 5, 3),
        ("arg", 8, 3),
        ("--tp", 1, 4),
        ("8", 1, 9),
        ("x y", 2, 4),
        ("--a", 3, 4),
        ("1", 3, 8),
        ("8888", 5, 32),
        ("--last", 6, 5),
        ("éü", 6, 12),
        ("z", 6, 17),
        ("2", 6, 19),
    ]


def test_places_inside_a_nested_script() -> None:
    nested = 'bash -c "\n  a &&\n  PORT=1 serve \\"x y\\" \\$PORT"'
    assert _places(nested) == [("serve", 3, 10), ("x y", 3, 18), ("$PORT", 3, 25)]


def test_places_come_from_the_spans_of_the_script() -> None:
    spans = (Span(0, Position("pod.yaml", 7, 9)), Span(8, Position("pod.yaml", 8, 11)))
    (one,) = run_script(Word("serve \\\n--a b", spans)).found
    assert [str(word.position) for word in one.words] == [
        "pod.yaml:7:9", "pod.yaml:8:11", "pod.yaml:8:15",
    ]  # fmt: skip


def test_environment_is_what_the_script_exports() -> None:
    script = 'export A=1 B="${B:-x}" C=$(date)\nD=4; export D; E=5\nexport F; F=6; unset A\nG=7 s'
    (one,) = _read(script, B="given", H="inherited").found
    assert {name: setting.value for name, setting in one.env.items()} == {
        "B": "given", "C": None, "D": "4", "F": "6", "G": "7",
    }  # fmt: skip
    assert one.env["G"].position == Position("run.sh", 4, 1)


def test_surroundings_are_read_and_passed_on() -> None:
    place = Position("compose.yaml", 3, 5)
    env = {"PORT": Setting("PORT", "80", place), "KEY": Setting("KEY", None, place)}
    (one,) = run_script(Word.at("s $PORT $KEY", Position("c", 1, 1)), env=env).found
    assert [(word.text, word.unknown) for word in one.words] == [
        ("s", False), ("80", False), ("$KEY", True),
    ]  # fmt: skip
    assert one.words[1].position == place
    assert one.env == env


def test_unknown_conditions_lead_both_ways() -> None:
    found = _read("if [[ -d /m ]]; then M=/m; else M=hf; fi\nserve $M\nafter").found
    assert [([w.text for w in one.words], one.conditions) for one in found] == [
        (["serve", "/m"], ("`[[ -d /m ]]` holds",)),
        (["after"], ()),
        (["serve", "hf"], ("`[[ -d /m ]]` does not hold",)),
    ]


def test_other_questions_lead_both_ways() -> None:
    found = _read("case $GPU in h*) A=1;; *) A=2;; esac; s $A").found
    assert [one.conditions for one in found] == [
        ("`$GPU` matches `h*`",),
        ("`$GPU` does not match `h*`",),
    ]
    found = _read("if nvidia-smi -L; then a; fi").found
    assert [one.conditions for one in found] == [(), ("`nvidia-smi -L` succeeds",)]


def test_commands_are_taken_to_succeed() -> None:
    found = _read("set -e\na || exit 1\ncd x && b\necho hi && c\n[ -f x ] && . x\nd").found
    assert [one.words[0].text for one in found] == ["a", "b", "c", "d"]
    assert all(one.conditions == () for one in found)


def test_many_conditions_name_only_what_matters() -> None:
    script = "\n".join(f"if [ -f {n} ]; then s {n}; fi" for n in range(6))
    result = _read(script)
    assert result.found[3].conditions == ("`[ -f 3 ]` holds",)
    assert [problem.code for problem in result.problems] == ["LNT003"]
    assert "more than 16 ways" in result.problems[0].message


@pytest.mark.parametrize(
    ("script", "code", "place"),
    [
        ("source env.sh\ns", "LNT004", "run.sh:1:1"),
        ("s\neval $CMD", "LNT004", "run.sh:2:1"),
        ('bash -c "$CMD"', "LNT004", "run.sh:1:10"),
        ("ssh node bash run.sh", "LNT004", "run.sh:1:1"),
        ("X=$(sglang serve m &)", "LNT004", "run.sh:1:3"),
        ("bash <<E\nsglang serve m\nE", "LNT004", "run.sh:1:6"),
        ("s; )", "LNT002", "run.sh:1:1"),
        ("if a; then b", "LNT002", "run.sh:1:1"),
        ("f() { f; }; f", "LNT003", "run.sh:1:7"),
        ("s {1..1000000}", "LNT003", "run.sh:1:1"),
    ],
)
def test_problems_have_code_remedy_and_place(script: str, code: str, place: str) -> None:
    problems = _read(script).problems
    assert [(problem.code, str(problem.position)) for problem in problems] == [(code, place)]
    assert problems[0].remedy


def test_reading_goes_on_after_what_is_no_shell() -> None:
    assert ["serve", "m"] in _words(")\nserve m")


_HOSTILE = {
    "braces": "s " + "{a,b}" * 40,
    "open braces": "s " + "{" * 20000,
    "open parameters": "s " + "${" * 20000,
    "open substitutions": "s " + "$(" * 20000,
    "parentheses": "(" * 20000,
    "documents": "<<A\n" * 2000,
    "words": "s " + "a " * 60000,
    "splitting": 'A="' + "a " * 200000 + '"; s $A $A $A',
    "doubling": "a=xx; while true; do a=$a$a; done",
    "endless": "i=0; while [ 1 -eq 1 ]; do i=$((i+1)); done",
    "pattern": 'X="' + "a" * 30000 + '"; s ${X##*a*a*a*b} ${X//a*a*b/c}',
    "expression": "[[ " + "a" * 180 + " =~ (a*)*b ]] && s",
    "arithmetic": "s $(( " + "(" * 3000 + "1" + ")" * 3000 + " ))",
    "ternary": "s $((" + "1?" * 3000 + "1" + ":1" * 3000 + "))",
    "defaults": "s " + "${V:-" * 300 + "x" + "}" * 300,
    "nested ifs": "if a; then " * 1000,
    "itself": 'B=\'bash -c "$B"\'; export B; bash -c "$B"',
    "references": "declare -n a=b b=a; s $a",
    "zero bytes": "s \0 b\0",
    "surrogate": "\ud800 s",
}


@pytest.mark.parametrize("name", _HOSTILE)
def test_hostile_scripts_end(name: str) -> None:
    start = time.process_time()
    result = _read(_HOSTILE[name])
    assert time.process_time() - start < 20
    assert all(problem.code in ("LNT002", "LNT003") for problem in result.problems)
    assert len(result.found) <= 20_000


def test_a_script_that_is_too_long_is_refused() -> None:
    result = _read("#" * ((1 << 20) + 1))
    assert [problem.code for problem in result.problems] == ["LNT003"]


_SNIPPETS = [
    "X='a  b'; s $X \"$X\" pre$X\"post\"",
    "A=(1 '2 3' ''); s \"${A[@]}\" ${A[@]} \"${A[*]}\" ${#A[@]} \"${A[@]:1}\" \"${!A[@]}\"",
    "P=/a/b.c.d; s ${P##*/} ${P%%.*} ${P#*.} ${P%.*} ${P//./_} ${P/#\\/a/x} ${P:1:3} ${P: -2}",
    "s {a,b{1,2}}x {01..03} {c..a} {} a{b \"{a,b}\" '${X}' {x}",
    "V=MiXed; s ${V,,} ${V^^} ${V,} ${#V} \"${V:+'q'}\" ${V:+'q'} \"${N:-'q'}\" ${N:-'q r' t}",
    "s $((7/2)) $((-7/2)) $((-7%3)) $((2**10)) $((0x1f+010)) $((1<2&&3)) $((5>3?8:9)) $((~5))",
    "IFS=,; Y=1,,2; s $Y; A=(a b); s \"${A[*]}\"",
    "s $'t\\tx\\x41\\101\\'' \"a\\$b\\`\\q\" a\\\nb",
    "s $'caf\\xc3\\xa9 \\344\\275\\240' $'\\xe2\\x80\\x9cq\\xe2\\x80\\x9d'",
    "f() { s \"$#\" \"$@\" $2; }; f 'a b' c ''; set -- x y; s \"$*\" \"$@\"",
    "x=1; f() { local x=2; g; }; g() { s $x; x=3; }; f; s $x",
    "declare -A M=([k]=v); M[j]=w; s ${M[k]} ${M[j]} ${M[z]:-d}; n=x; x=5; s ${!n}",
    "a=1; a+=2; b=(x); b+=(y); b[5]=z; s $a ${b[@]} ${b[-1]} ${#b[@]}",
    "[[ abc == a*c && x != y && 10 -gt 9 && abc =~ ^a.c$ ]] && s 1; [ a = a -a -n x ] && s 2",
    "for i in 1 2 3; do [ $i = 2 ] && continue; s $i; done; until false; do s u; break; done",
    "case x.y in *.z) s 1;; [w-x].?) s 2;; esac; case '*' in '*') s 3;; esac",
]  # fmt: skip


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize("snippet", _SNIPPETS)
def test_words_are_those_of_bash(snippet: str) -> None:
    stub = 's() { printf "%s\\0" "$@"; printf "\\1"; }\n'
    done = subprocess.run(
        ["bash", "-c", stub + snippet], capture_output=True, check=False, timeout=20, env={}
    )
    calls = done.stdout.decode().split("\1")[:-1]
    assert [words[1:] for words in _words(snippet)] == [call.split("\0")[:-1] for call in calls]
