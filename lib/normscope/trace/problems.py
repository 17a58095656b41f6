"""Counts of what is wrong with a trace, with the place of the first of each kind."""

from normscope.trace.events import Problem


class ProblemLog:
    """Collects troubles by kind; `found` lists them in the order in which each kind first came up."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._offsets: dict[str, int | None] = {}

    def add(self, what: str, offset: int | None = None, count: int = 1) -> None:
        """Count ``what``, a clause that follows the count, seen first at byte ``offset``."""
        if count:
            self._counts[what] = self._counts.get(what, 0) + count
            self._offsets.setdefault(what, offset)

    def count(self, what: str) -> int:
        """Return how often ``what`` was added."""
        return self._counts.get(what, 0)

    def first_offset(self, what: str) -> int | None:
        """Return where ``what`` came up first, in bytes."""
        return self._offsets.get(what)

    def found(self) -> list[Problem]:
        """Return every kind with its count."""
        return [Problem(what, count, self._offsets[what]) for what, count in self._counts.items()]
