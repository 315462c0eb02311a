"""Every error that Fairway raises on purpose.

    FairwayError
    ├── InputError            what a user gave us is wrong; carries where, what and what was expected
    │   ├── QuantityError     a text is not a Kubernetes quantity, or does not fit an int64
    │   ├── StoreError        the file that a sandbox is kept in cannot be read or written
    │   ├── ManifestError     one or more problems in manifest files
    │   └── PolicyError       one or more problems in a policy file
    ├── ApiError              an API server refused a request; carries its status, reason and message
    │   └── NoAnswerError     a request was not answered: it may or may not have been carried out
    ├── PrepareError          a claim's devices cannot be made ready on a node; the kubelet gets that as its answer
    ├── ResourceUnderflow     a subtraction would go below zero; names the dimension
    └── InvariantError        the state contradicts itself: an error of Fairway, never of the user
        ├── IllegalMoveError  a task moved between two states that no legal move connects; carries its history
        └── StaleCycleError   a cycle was to be explained after the state had moved on

"Does not fit" is never an error: it is a verdict, a value (see scheduler.verdict).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class FairwayError(Exception):
    """The root: catching this catches all that Fairway raises on purpose."""


class InputError(FairwayError):
    """What a user gave us cannot be used. The command line prints it and exits with 2."""


class QuantityError(InputError):
    """A text that Go's resource.Quantity would refuse, or a number too large to keep exactly."""

    def __init__(self, text: str, reason: str) -> None:
        super().__init__(f"invalid quantity {text!r}: {reason}")
        self.text = text
        self.reason = reason

    def __reduce__(self) -> tuple[type[QuantityError], tuple[str, str]]:
        """Errors cross from one process to another whole."""
        return type(self), (self.text, self.reason)


class StoreError(InputError):
    """The file that a sandbox is kept in is damaged, is something else, or cannot be written (any more)."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong in one place: `source:line: path: message`."""

    source: str
    line: int
    path: str
    message: str

    def __str__(self) -> str:
        """One line, whatever line ends are in a file's name or in a key."""
        place = f"{self.source}:{self.line}" if self.line else self.source
        text = f"{place}: {self.path}: {self.message}" if self.path else f"{place}: {self.message}"
        return text.replace("\n", "\\n")


class ProblemsError(InputError):
    """Several problems of one run, reported together."""

    def __init__(self, problems: Sequence[Problem], more: int = 0) -> None:
        """`more` counts those that are left out of `problems`."""
        lines = [str(problem) for problem in problems]
        super().__init__("\n".join([*lines, f"and {more} more"] if more else lines))
        self.problems = tuple(problems)
        self.more = more

    def __reduce__(self) -> tuple[type[ProblemsError], tuple[tuple[Problem, ...], int]]:
        """Errors cross from one process to another whole."""
        return type(self), (self.problems, self.more)


class ManifestError(ProblemsError):
    """The manifests of a run are not usable; nothing of them was used."""


class PolicyError(ProblemsError):
    """A policy file is not usable; an older policy stays in use."""


class ApiError(FairwayError):
    """An API server said no. `message` is the server's own sentence; `request` names method and path."""

    def __init__(
        self, status: int, reason: str, message: str, *, request: str = "", retry_after: float | None = None
    ) -> None:
        where = f"{request}: " if request else ""
        super().__init__(f"{where}{status} {reason}: {message}" if status else f"{where}{message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.request = request
        self.retry_after = retry_after
        """Seconds, where the server said when to come again."""


class NoAnswerError(ApiError):
    """The connection failed, or the time limit passed, before an answer came: whether it was done is unknown."""

    def __init__(self, message: str, *, request: str = "") -> None:
        super().__init__(0, "NoAnswer", message, request=request)


class PrepareError(FairwayError):
    """The devices of a claim cannot be made ready on this node now. The sentence ends up in an event of the pod."""


class ResourceUnderflow(FairwayError):  # noqa: N818 - it reads as what happened
    """Subtracting would leave less than nothing in a dimension."""

    def __init__(self, dimension: str, have: int, take: int) -> None:
        super().__init__(f"cannot take {take} of {dimension}: only {have} there")
        self.dimension = dimension
        self.have = have
        self.take = take


class InvariantError(FairwayError):
    """The kept sums or cross-references disagree with a recomputation. Please report it."""


class IllegalMoveError(InvariantError):
    """A task was moved to a state that cannot follow the one it is in (`fairway.state.jobs.LEGAL_MOVES`)."""

    def __init__(self, task: str, history: Sequence[str], state: str) -> None:
        super().__init__(f"task {task} cannot become {state}; its last states were {' -> '.join(history)}")
        self.task = task
        self.history = tuple(history)
        self.state = state

    def __reduce__(self) -> tuple[type[IllegalMoveError], tuple[str, tuple[str, ...], str]]:
        return type(self), (self.task, self.history, self.state)


class StaleCycleError(InvariantError):
    """A cycle was to be explained after the state had changed, or after another cycle had begun on it."""
