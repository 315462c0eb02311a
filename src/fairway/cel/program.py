"""Expressions compiled and run: the one place that calls the library that the extra `cel` installs.

The library reads an expression and checks its types. It is evaluated here, because the library bounds nothing but the
number of iterations: `cel.bind(b, a + a, cel.bind(c, b + b, ...` doubles a text at each step and takes all memory there
is. An expression that is too long or does not compile is an `InputError`. One that fails while it
runs gives an `Evaluation` with an error. Nothing that an expression says raises anything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fairway.cel import extensions, kubernetes, standard
from fairway.cel.interruptible import Evaluating, start
from fairway.cel.machine import TABLE, Overload, build, run
from fairway.cel.tree import Node, Path, read, reads
from fairway.cel.values import Budget, BudgetError, EvaluationError
from fairway.errors import InputError

if TYPE_CHECKING:
    from cel_expr_python import cel  # type: ignore[import-untyped]

LIBRARIES: Final = (standard, extensions, kubernetes)
MAX_EXPRESSION: Final = 10 * 1024
"""Maximum length, as in Kubernetes."""
MAX_COST: Final = 100_000
"""Maximum cost of one evaluation: steps, and each ten characters or two elements that are handled."""
_SHOWN = 200
_GIVES = ("BOOL", "DYN")
_ABSTRACT = {
    "Quantity": "kubernetes.Quantity",
    "Semver": "kubernetes.Semver",
    "IP": "net.IP",
    "CIDR": "net.CIDR",
    "URL": "kubernetes.URL",
}


class Evaluation(NamedTuple):
    """The result of an expression. With an `error` there is no value."""

    value: Any = None
    error: str = ""
    failed: bool = False
    """Whether the evaluation was aborted because it cost too much."""
    steps: int = 0
    """Its cost."""


class Environment:
    """What expressions of one kind are given: variables by name, with their types as in `string`, `map<dyn>`; and which
    functions of the table they may call besides those that all may. `probe` is input with nothing in it: an expression
    that costs too much even on that is refused at once, and not run for one device or cluster after the other. `most`
    is what one evaluation may cost.
    """

    def __init__(
        self,
        variables: Mapping[str, str],
        extra: Iterable[str] = (),
        probe: Mapping[str, Any] | None = None,
        most: int = MAX_COST,
    ) -> None:
        self._variables = dict(variables)
        self._without = _OWN - frozenset(extra)
        self._probe = probe
        self._most = most

    def program(self, text: str, *, probes: bool = True) -> Program:
        """InputError if the library is missing, or the expression is refused. Without `probes` it is not run on the
        probe: callers that evaluate in parts do that themselves.
        """
        if len(text) > MAX_EXPRESSION:
            raise _refused(text, f"is {len(text)} characters long, expected at most {MAX_EXPRESSION}")
        try:
            compiled = self._library.compile(text)
            gives = str(compiled.return_type().name())
            tree = read(compiled.serialize())
            step = build(tree) if gives in _GIVES else None
        except InputError:
            raise
        except (Exception, RecursionError) as error:
            raise _refused(text, f"does not compile: {_first_line(error)}") from None
        if step is None:
            raise _refused(text, f"gives {gives}, expected BOOL")
        program = Program(text, step, self._most, tree, reads(tree, self._variables))
        if probes and self._probe is not None and program.run(self._probe).failed:
            raise self.too_dear(text)
        return program

    @property
    def probe(self) -> Mapping[str, Any]:
        """An empty input."""
        return self._probe or {}

    def too_dear(self, text: str) -> InputError:
        """The error for an expression that costs too much even on the probe."""
        return _refused(text, f"costs too much: more than {self._most} steps for any input")

    @cached_property
    def _library(self) -> cel.Env:
        try:
            from cel_expr_python import cel
            from cel_expr_python.ext import ext_bindings, ext_optional  # type: ignore[import-untyped]
        except ImportError:
            raise InputError("CEL expressions need the extra cel: pip install 'fairway[cel]'") from None
        types = _Types(cel)
        declared = [
            cel.FunctionDecl(name, [types.overload(name, index, o) for index, o in enumerate(overloads)])
            for name, found in TABLE.items()
            if name not in self._without and (overloads := [o for o in found if o.declared])
        ]
        declared += [cel.FunctionDecl(name, types.comparisons(name)) for name in _COMPARED]
        return cel.NewEnv(
            config=cel.NewEnvConfigFromYaml(_REPLACED),
            variables={name: types.named(kind) for name, kind in self._variables.items()},
            extensions=[ext_bindings.ExtBindings(), ext_optional.ExtOptional()],
            functions=declared,
        )


class Program:
    """One compiled expression."""

    def __init__(self, text: str, step: Any, most: int, tree: Node, reads: frozenset[Path]) -> None:
        self.text = text
        self._step = step
        self._most = most
        self._tree = tree
        self.reads = reads
        """The parts of the input that it can read: inputs that agree in them give the same result."""

    def run(self, variables: Mapping[str, Any], most: int | None = None) -> Evaluation:
        units = most or self._most
        budget = Budget(units)
        return self._run(variables, budget)._replace(steps=units - max(0, budget.left))

    def _run(self, variables: Mapping[str, Any], budget: Budget) -> Evaluation:
        try:
            return Evaluation(run(self._step, variables, budget))
        except EvaluationError as error:
            return Evaluation(error=_line(str(error)))
        except (BudgetError, RecursionError, MemoryError) as error:
            return Evaluation(error=_line(str(error)) or type(error).__name__, failed=True)
        except Exception as error:  # a mistake of ours must not be one tenant's way to stop the others
            return Evaluation(error=f"{type(error).__name__}: {_line(str(error))}")

    def in_parts(self, variables: Mapping[str, Any]) -> Partial:
        """An evaluation in parts."""
        return Partial(self._tree, variables, self._most)


class Partial:
    """An evaluation that pauses after a given cost and can be continued."""

    def __init__(self, tree: Node, variables: Mapping[str, Any], most: int) -> None:
        self._budget = Budget(most)
        self._most = most
        self._going: Evaluating = start(tree, variables, self._budget)

    @property
    def steps(self) -> int:
        """Its cost so far."""
        return self._most - max(0, self._budget.left)

    def advance(self, units: int) -> Evaluation | None:
        """Continue for about this many steps; None if it is not finished then."""
        until = self._budget.left - units
        try:
            while True:
                next(self._going)
                if self._budget.left <= until:
                    return None
        except StopIteration as ended:
            return self._ended(Evaluation(ended.value))
        except EvaluationError as error:
            return self._ended(Evaluation(error=_line(str(error))))
        except (BudgetError, RecursionError, MemoryError) as error:
            return self._ended(Evaluation(error=_line(str(error)) or type(error).__name__, failed=True))
        except Exception as error:  # as in `Program.run`
            return self._ended(Evaluation(error=f"{type(error).__name__}: {_line(str(error))}"))

    def _ended(self, evaluation: Evaluation) -> Evaluation:
        return evaluation._replace(steps=self.steps)


_COMPARED = ("_<_", "_<=_", "_>_", "_>=_")
_REPLACED = "stdlib:\n  exclude_functions:\n" + "".join(f'    - name: "{name}"\n' for name in ("string", *_COMPARED))
_OWN = frozenset(("includes", "scores", "parseJSON"))
"""Functions that only some environments have."""


class _Types:
    """The library's types by the names in the table."""

    def __init__(self, library: Any) -> None:
        self._library = library
        kinds = library.Type
        self._known = {
            "dyn": kinds.DYN,
            "bool": kinds.BOOL,
            "int": kinds.INT,
            "uint": kinds.UINT,
            "double": kinds.DOUBLE,
            "string": kinds.STRING,
            "bytes": kinds.BYTES,
            "list": kinds.List(kinds.DYN),
            "list<string>": kinds.List(kinds.STRING),
            "map": kinds.Map(kinds.STRING, kinds.DYN),
            "timestamp": kinds.TIMESTAMP,
            "duration": kinds.DURATION,
            **{name: kinds.AbstractType(full) for name, full in _ABSTRACT.items()},
        }

    def named(self, kind: str) -> Any:
        if kind.startswith("map<"):
            return self._library.Type.Map(self._library.Type.STRING, self.named(kind[4:-1]))
        return self._known[kind]

    def comparisons(self, name: str) -> list[Any]:
        """Numbers of different types can be compared, as in Kubernetes."""
        numbers = ("int", "uint", "double")
        pairs = [(one, other) for one in numbers for other in numbers]
        pairs += [(kind, kind) for kind in ("bool", "string", "bytes", "timestamp", "duration")]
        return [
            self._library.Overload(f"fairway_{index}_{name}", self.named("bool"), [self.named(one), self.named(other)])
            for index, (one, other) in enumerate(pairs)
        ]

    def overload(self, name: str, index: int, overload: Overload) -> Any:
        parameters = [self.named(kind) for kind in overload.parameters]
        identity = f"fairway_{name.replace('.', '_')}_{index}"
        return self._library.Overload(identity, self.named(overload.result), parameters, is_member=overload.member)


def shown(text: str) -> str:
    """An expression as messages quote it, shortened."""
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")


def _refused(text: str, why: str) -> InputError:
    return InputError(f"CEL expression {shown(text)} {why}")


def _first_line(error: BaseException) -> str:
    return _line(str(error).replace("INVALID_ARGUMENT: ERROR: <input>:", "", 1)) or type(error).__name__


def _line(text: str) -> str:
    return next(iter(text.splitlines()), "")[:_SHOWN]
