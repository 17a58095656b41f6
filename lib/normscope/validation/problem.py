"""One thing that is wrong in a findings file."""

import msgspec

from normscope import escape


class Problem(msgspec.Struct, frozen=True, order=True):
    """What is wrong in one line, and what to do about it."""

    line: int
    message: str
    fix: str

    def __str__(self) -> str:
        """Return the problem as one line of text."""
        return f"line {self.line}: {self.message}; {self.fix}"


def quoted(text: str) -> str:
    """Return a text of the file for a message: short, printable and in quotation marks."""
    return f'"{escape.shorten(escape.printable(text), 90)}"'
