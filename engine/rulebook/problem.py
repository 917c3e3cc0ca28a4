"""One thing that is wrong with a rule file, at its place, and the error that carries them all."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning"]


@dataclass(slots=True, frozen=True, order=True)
class Problem:
    """`path` is relative to the rules folder; line and column count from 1."""

    path: str
    line: int
    column: int
    message: str
    severity: Severity = "error"

    def __str__(self) -> str:
        """`path:line:column: message`, the form that editors jump to."""
        label = "" if self.severity == "error" else "warning: "
        return f"{self.path}:{self.line}:{self.column}: {label}{self.message}"


class RulesError(ValueError):
    """Rules that cannot be used; `problems` holds every one found in the run."""

    def __init__(self, problems: Iterable[Problem]):
        self.problems = tuple(sorted(problems))
        count = len(self.problems)
        lines = "\n".join(str(problem) for problem in self.problems)
        super().__init__(f"{count} problem{'s' if count != 1 else ''} in rules:\n{lines}")


def suggest(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Return `; did you mean 'x'?`, or nothing where no known word is near."""
    near = difflib.get_close_matches(word, sorted(known), n=1, cutoff=cutoff)
    return f"; did you mean {near[0]!r}?" if near else ""
