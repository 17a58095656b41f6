"""How operations and changes of a comparison are said."""

from normscope.compare.differences import first_argument, is_as_long
from normscope.compare.models import CallGroup
from normscope.escape import shorten
from normscope.findings.wording import significant

MINUS = "\u2212"
_NAME_WIDTH = 60
_MANY_TIMES = 10.0


def change_words(time1_us: float, time2_us: float) -> str:
    """Return how trace 1 compares, in % of trace 2's time.

    Examples
    --------
    >>> change_words(127, 100), change_words(79, 100), change_words(5000, 100), change_words(1, 0)
    ('27% slower', '21% faster', '50 times as slow', 'slower')
    """
    if is_as_long(time1_us, time2_us):
        return "as fast"
    if time2_us <= 0:
        return "slower"
    if time1_us > _MANY_TIMES * time2_us:
        return f"{significant(time1_us / time2_us)} times as slow"
    percent = f"{significant(100 * abs(time1_us - time2_us) / time2_us)}%"
    return f"{percent} {'slower' if time1_us > time2_us else 'faster'}"


def each_name(text: str) -> str:
    """Return a name from outside, short enough for a sentence."""
    return shorten(text, _NAME_WIDTH)


def operation_words(group: CallGroup) -> str:
    """Return an operation's name, its first argument and its direction."""
    argument = first_argument(group)
    shape = f" on {each_name(argument)}" if argument else ""
    return f"{each_name(group.name)}{shape}, {group.direction}"
