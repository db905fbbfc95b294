"""What a script has set so far: variables, arguments, functions; and the limits of reading it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tree_sitter import Node

from configurator.errors import Position, Problem
from configurator.readers.shell_source import Source
from configurator.words import Invocation, Setting, Word

Value = tuple[Word, ...]
"""Parts of a value; those marked unknown are known only where the script runs."""

MAX_STEPS = 20_000
MAX_CHARACTERS = 1 << 20
MAX_DEPTH = 50
MAX_RUNS = 16
_MAX_ELEMENTS = 20_000


class LimitReachedError(Exception):
    """The script is too large or never ends."""

    def __init__(self, fact: str, position: Position | None) -> None:
        super().__init__(fact)
        self.position = position


@dataclass(slots=True)
class Budget:
    """How much may still be done, for all runs of a script together."""

    steps: int = MAX_STEPS
    characters: int = 20 * MAX_CHARACTERS
    position: Position | None = None
    """Of the statement being read."""

    def step(self, count: int = 1) -> None:
        """Count steps; raises LimitReachedError beyond the last."""
        self.steps -= count
        if self.steps < 0:
            raise LimitReachedError(f"it takes more than {MAX_STEPS:,} steps", self.position)

    def text(self, length: int) -> None:
        """Count characters of an expansion; raises LimitReachedError when it is too long."""
        self.characters -= length
        if length > MAX_CHARACTERS or self.characters < 0:
            raise LimitReachedError(
                f"a text grows beyond {MAX_CHARACTERS:,} characters", self.position
            )

    def elements(self, count: int) -> None:
        """Refuse lists that are too long."""
        if count > _MAX_ELEMENTS:
            raise LimitReachedError(f"a list has more than {_MAX_ELEMENTS:,} words", self.position)

    def depth(self, depth: int) -> None:
        """Refuse to nest deeper."""
        if depth > MAX_DEPTH:
            raise LimitReachedError(f"it nests deeper than {MAX_DEPTH} levels", self.position)


@dataclass(frozen=True, slots=True)
class Variable:
    """One shell variable."""

    value: Value | None = ()
    """None when something sets it, to what is known only where the script runs."""
    array: dict[int | str, Value] | None = None
    """Never changed in place."""
    keyed: bool = False
    """Its subscripts are texts."""
    exported: bool = False
    position: Position | None = None
    """Where it was set; None for what the caller gave."""
    removed: bool = False
    """`unset` removed it: it is known to be empty."""
    attribute: str = ""
    """`i`, `l` or `u`: what is assigned becomes a number, or small or capital letters."""
    default_of: str = ""
    """It is empty because it was set to `${NAME:-}`, and nothing sets NAME."""
    reference: str = ""
    """`declare -n`: it stands for the variable of this name."""

    def elements(self) -> list[Value]:
        """The values of an array in order; a plain value is an array of one."""
        if self.array is None:
            return [self.value or ()]
        if self.keyed:
            return list(self.array.values())
        return [self.array[key] for key in sorted(self.array, key=str_or_int)]

    def numbers(self) -> tuple[int, ...]:
        """The subscripts of an array that counts its elements, in order."""
        if self.removed or self.keyed or self.array is None:
            return ()
        return tuple(sorted(key for key in self.array if isinstance(key, int)))

    def without(self, key: int | str) -> Variable:
        """The variable after `unset 'NAME[key]'`."""
        if self.array is None:
            return replace(self, removed=True) if key in (0, -1) else self
        if isinstance(key, int) and key < 0:
            key += 1 + max(self.numbers(), default=-1)
        array = {one: value for one, value in self.array.items() if one != key}
        return replace(self, array=array)

    def element(self, key: int | str) -> Value | None:
        """One value of an array, counted from its end when negative; None when it is not set."""
        if self.removed:
            return None
        plain: dict[int | str, Value] = {0: self.value or ()}
        array = plain if self.array is None else self.array
        if isinstance(key, int) and key < 0:
            key += 1 + max((k for k in array if isinstance(k, int)), default=-1)
        return array.get(key)


def str_or_int(key: int | str) -> tuple[int, str]:
    """How subscripts are ordered."""
    return (key, "") if isinstance(key, int) else (0, key)


@dataclass(frozen=True, slots=True)
class Function:
    """A function, with the text it stands in."""

    source: Source
    body: Node


@dataclass(slots=True)
class Shell:
    """One shell; a subshell is a copy of it."""

    source: Source
    budget: Budget
    scopes: list[dict[str, Variable]]
    """The script's own variables first, then those of each function being run."""
    arguments: list[Value] | None = None
    """`$1` and following; None when the caller decides."""
    functions: dict[str, Function] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)
    """Names to export once they are set."""
    exported_functions: set[str] = field(default_factory=set)
    options: frozenset[str] = frozenset()
    """Those of `set` that are on, by their long names."""
    at_exit: Word | None = None
    """What `trap` runs when the shell ends."""
    depth: int = 0

    def copy(self) -> Shell:
        """A subshell: what it sets, this one does not see."""
        self.budget.step(1 + sum(map(len, self.scopes)) // 100)
        return replace(
            self,
            scopes=[dict(scope) for scope in self.scopes],
            functions=dict(self.functions),
            exported=set(self.exported),
            exported_functions=set(self.exported_functions),
            at_exit=None,
            arguments=None if self.arguments is None else list(self.arguments),
        )

    def find(self, name: str) -> Variable | None:
        """The variable of this name, through references; None when nothing sets it."""
        for _ in range(10):
            found = self.home(name).get(name)
            if found is None or not found.reference:
                return found
            name = found.reference
        return None

    def put(self, name: str, variable: Variable) -> None:
        """Set a variable where it lives: in the innermost function that declares it."""
        scope = self.home(name)
        known = scope.get(name)
        if known and known.reference and not variable.reference and known.reference != name:
            self.home(known.reference)[known.reference] = variable
            return
        scope[name] = variable
        self.budget.elements(len(scope))

    def declare(self, name: str, variable: Variable) -> None:
        """Set a variable of the function being run."""
        self.scopes[-1][name] = variable

    def assign(self, name: str, value: Value | None, position: Position | None) -> None:
        """`name=value`: what was exported stays exported."""
        known = self.find(name) or Variable()
        if known.array is not None:
            array: dict[int | str, Value] = {**known.array, 0: value or ()}
            self.put(name, replace(known, array=array, position=position, removed=False))
        else:
            every = "allexport" in self.options
            exported = known.exported or name in self.exported or every
            attribute = known.attribute
            self.put(name, Variable(value, None, False, exported, position, False, attribute))

    def assign_element(
        self, name: str, key: int | str, value: Value, position: Position | None
    ) -> None:
        """`name[key]=value`."""
        known = self.find(name) or Variable()
        array = dict(known.array) if known.array is not None else {}
        if known.array is None and known.value:
            array[0] = known.value
        array[key] = value
        self.budget.elements(len(array))
        self.budget.step(len(array) // 100)
        self.put(name, replace(known, value=(), array=array, position=position, removed=False))

    def exports(self) -> dict[str, Setting]:
        """The environment that the script gives to what it starts."""
        found: dict[str, Setting] = {}
        names = {name: None for scope in self.scopes for name in scope}
        for name in names:
            variable = self.find(name)
            if not variable or not variable.exported or variable.removed:
                continue
            if variable.position and variable.array is None:
                found[name] = setting(name, variable.value, variable.position)
        return found

    def home(self, name: str) -> dict[str, Variable]:
        """Where a variable of this name lives."""
        return next((scope for scope in reversed(self.scopes) if name in scope), self.scopes[0])


def setting(name: str, value: Value | None, position: Position) -> Setting:
    """An environment variable; its value is None when a part is known only at run time."""
    known = value is not None and is_known(value)
    return Setting(name, text_of(value or ()) if known else None, position)


def is_known(value: Value) -> bool:
    """Every part of the value can be told before the start."""
    return not any(word.unknown for word in value)


def text_of(value: Value) -> str:
    """The value as one text."""
    return "".join(word.text for word in value)


@dataclass(slots=True)
class Run:
    """One way through a script: what was assumed, and what it started."""

    decisions: tuple[bool, ...]
    """For the first unknown conditions, whether they hold; those after them are taken to."""
    budget: Budget
    taken: list[bool] = field(default_factory=list)
    assumed: dict[str, bool] = field(default_factory=dict)
    """Conditions by their text, with what was decided."""
    conditions: list[str] = field(default_factory=list)
    found: list[Invocation] = field(default_factory=list)
    problems: dict[tuple[str, Position | None], Problem] = field(default_factory=dict)
    missing: str = ""
    """The variable that a condition found empty last, though the caller may set it."""
    failed: bool = False
    """The script ended itself, and said that it failed."""

    def decide(self, key: str, holds: str, fails: str) -> bool:
        """Choose for an unknown condition, the same each time it is met."""
        if key not in self.assumed:
            at = len(self.taken)
            self.taken.append(self.decisions[at] if at < len(self.decisions) else True)
            self.assumed[key] = self.taken[at]
            self.conditions.append(holds if self.taken[at] else fails)
        return self.assumed[key]

    def problem(self, code: str, fact: str, remedy: str, position: Position | None) -> None:
        """Note what cannot be resolved, once for each place."""
        self.problems.setdefault((code, position), Problem(code, fact, remedy, position))
