"""Wrong rows of a trace: counted, the first ones kept to be shown, or refused where the user is strict."""

from __future__ import annotations

from fairway.errors import InputError, Problem, ProblemsError

EXAMPLES = 5


class TraceProblems:
    """What was wrong in one trace file. A wrong row is left out; it never stops the rest."""

    def __init__(self, source: str, *, strict: bool = False) -> None:
        self.source = source
        self.strict = strict
        self.count = 0
        self.examples: list[Problem] = []
        self._note = ""

    def note(self, text: str) -> None:
        """Something that the user should know and that leaves nothing out; the first one is kept."""
        self._note = self._note or f"{self.source}: {text}"

    def add(self, line: int, message: str, path: str = "") -> None:
        """Note a row that is left out; where the user is strict it is an error instead."""
        problem = Problem(self.source, line, path, message)
        if self.strict:
            raise ProblemsError([problem])
        self.count += 1
        if len(self.examples) < EXAMPLES:
            self.examples.append(problem)

    def summary(self) -> list[str]:
        """What was noted; a line that counts, then the examples; nothing where nothing was wrong."""
        noted = [self._note] if self._note else []
        if not self.count:
            return noted
        rows = "row was" if self.count == 1 else "rows were"
        shown = "" if self.count == len(self.examples) else f"; the first {len(self.examples)}"
        return [*noted, f"{self.source}: {self.count} invalid {rows} left out{shown}:", *map(str, self.examples)]

    def nothing_left(self, format: str) -> InputError:
        """A file of which no row can be used is another file than it is said to be: a run of it would say nothing."""
        lines = "\n".join(map(str, self.examples))
        return InputError(f"{self.source}: no row could be read, expected a trace of format {format}:\n{lines}")
