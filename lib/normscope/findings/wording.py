"""How numbers and lists are said in prose: few digits, units, singular and plural."""

from collections.abc import Sequence

_WORDS = (
    "no",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)


def number_word(count: int) -> str:
    """Return a count as a word up to twelve, else in digits with thousands separated.

    Examples
    --------
    >>> number_word(5), number_word(4096)
    ('five', '4,096')
    """
    return _WORDS[count] if 0 <= count < len(_WORDS) else f"{count:,}"


def plural(count: int, noun: str) -> str:
    """Return a count with its noun.

    Examples
    --------
    >>> plural(1, "shape"), plural(3, "shape")
    ('one shape', 'three shapes')
    """
    return f"{number_word(count)} {noun}{'' if count == 1 else 's'}"


def verb(count: int, stem: str) -> str:
    """Return a verb in the present tense that agrees with a count.

    Examples
    --------
    >>> verb(1, "take"), verb(2, "take")
    ('takes', 'take')
    """
    return f"{stem}s" if count == 1 else stem


def counted(count: int, noun: str, nouns: str | None = None) -> str:
    """Return a count in digits with its noun.

    Examples
    --------
    >>> counted(1, "call"), counted(4096, "call")
    ('1 call', '4,096 calls')
    """
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


def significant(value: float, digits: int = 2) -> str:
    """Return a number with ``digits`` significant digits, never in exponent notation.

    Examples
    --------
    >>> significant(0.1207), significant(44.3), significant(1197.6), significant(0)
    ('0.12', '44', '1,198', '0')
    """
    if value == 0:
        return "0"
    decimals = max(0, digits - len(str(int(abs(value))))) if abs(value) >= 1 else digits
    if abs(value) < 1:
        while round(abs(value), decimals) == 0 or abs(value) < 10 ** (digits - decimals - 1):
            decimals += 1
            if decimals > 12:
                return "0"
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def span(low: float, high: float, unit: str = "", digits: int = 2) -> str:
    """Return a range of two numbers, or one number where both read the same.

    Examples
    --------
    >>> span(0.12, 0.26, " TB/s"), span(2.0, 2.0, "%")
    ('0.12–0.26 TB/s', '2%')
    """
    ends = significant(low, digits), significant(high, digits)
    return (ends[0] if ends[0] == ends[1] else "–".join(ends)) + unit


def duration(time_us: float) -> str:
    """Return a duration in the unit that suits it.

    Examples
    --------
    >>> duration(0.31), duration(399.2), duration(2951)
    ('0.31 µs', '399 µs', '2.95 ms')
    """
    if time_us < 1e3:
        return f"{significant(time_us, 3 if time_us >= 100 else 2)} µs"
    if time_us < 1e6:
        return f"{significant(time_us / 1e3, 3)} ms"
    return f"{significant(time_us / 1e6, 3)} s"


def data_size(size_bytes: float) -> str:
    """Return a number of bytes in decimal units, as bandwidth is given.

    Examples
    --------
    >>> data_size(48_169_472), data_size(1_835), data_size(512)
    ('48 MB', '1.8 kB', '512 bytes')
    """
    for factor, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size_bytes >= factor:
            value = size_bytes / factor
            return f"{significant(value, 3 if value >= 100 else 2)} {unit}"
    return f"{size_bytes:.0f} bytes"


def listed(parts: Sequence[str], last: str = "and") -> str:
    """Return parts joined by commas and a last ``and``.

    Examples
    --------
    >>> listed(["a", "b", "c"]), listed(["a"])
    ('a, b and c', 'a')
    """
    if len(parts) <= 1:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} {last} {parts[-1]}"


def shown(parts: Sequence[str], most: int) -> list[str]:
    """Return at most ``most`` parts, and a last one that counts the rest."""
    if len(parts) <= most:
        return list(parts)
    return [*parts[:most], f"{number_word(len(parts) - most)} more"]


def sentence_case(text: str) -> str:
    """Return ``text`` with its first letter in upper case, the others as they are."""
    return text[:1].upper() + text[1:]
