"""The file of limits: every key is known and documented, every mistake is one sentence with table and key."""

import re
from pathlib import Path

import msgspec
import pytest

from conftest import ROOT
from normscope.compare.limits import (
    HOW_TO_WRITE,
    LIMIT_KEYS,
    CoverageLimits,
    OperationLimits,
    TimeLimits,
    parse_limits,
    read_limits,
)
from normscope.errors import InputError

PAGE = ROOT / "docs" / "limits.md"
KINDS: dict[str, type[msgspec.Struct]] = {
    "total": TimeLimits,
    "variant": TimeLimits,
    "operation": OperationLimits,
    "coverage": CoverageLimits,
}


def test_an_empty_file_sets_no_limit_and_lets_nothing_new_or_lost_through() -> None:
    limits = parse_limits("", "x")
    assert (limits.total.given(), limits.variant, limits.operation) == ({}, {}, ())
    assert msgspec.structs.asdict(limits.coverage) == {
        "allow_new": False,
        "allow_vanished": True,
        "allow_lost_coverage": False,
        "max_unattributed_percent": None,
        "max_unattributed_increase_percent": 1.0,
    }


def test_every_key_is_read() -> None:
    times = "\n".join(f"{key} = {place}" for place, key in enumerate(LIMIT_KEYS, start=1))
    text = (
        f"[total]\n{times}\nonly_if_significant = true\n[variant.RMSNorm]\n{times}\n[[operation]]\n"
        f'name = "a*"\nmodule = "m"\narguments = "(8"\ndirection = "backward"\nvariant = "Other"\n{times}\n'
        "[coverage]\nallow_new = true\nallow_vanished = false\nallow_lost_coverage = true\n"
        "max_unattributed_percent = 5\nmax_unattributed_increase_percent = 0.5"
    )
    limits = parse_limits(text, "x")
    (operation,) = limits.operation
    for table in (limits.total, limits.variant["RMSNorm"], operation):
        assert table.given() == {key: float(place) for place, key in enumerate(LIMIT_KEYS, start=1)}
    assert (limits.total.only_if_significant, operation.only_if_significant) == (True, False)
    assert (operation.name, operation.module, operation.arguments) == ("a*", "m", "(8")
    assert (operation.direction, operation.variant) == ("backward", "Other")
    assert msgspec.structs.astuple(limits.coverage) == (True, False, True, 5.0, 0.5)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[totl]", "unknown table 'totl', did you mean total?"),
        ("max_time_ms = 1", "unknown table 'max_time_ms'"),
        ("total = 3", r"wrong [total]: it must be a table"),
        ("[total]", "set no limit in [total]"),
        ("[total]\nonly_if_significant = true", "set no limit in [total]"),
        (
            "[total]\nmax_incease_percent = 1",
            "key 'max_incease_percent' in [total], did you mean max_increase_",
        ),
        ("[total]\nname = 'x'\nmax_time_ms = 1", "key 'name' in [total]"),
        ('[total]\nmax_time_ms = "1"', "max_time_ms in [total]: Expected `float"),
        ("[total]\nmax_time_ms = true", "max_time_ms in [total]: Expected `float"),
        ("[total]\nmax_time_ms = -0.1", "max_time_ms in [total]: Expected `float` >= 0"),
        ("[total]\nmax_increase_percent = -1", "max_increase_percent in [total]"),
        ("[total]\nmax_increase_ms = -1", "max_increase_ms in [total]"),
        ("[total]\nmax_impact_score = 101", "max_impact_score in [total]"),
        ("[total]\nmin_efficiency_percent = 101", "min_efficiency_percent in [total]"),
        ("[total]\nmax_time_ms = nan", "max_time_ms in [total]: nan is no limit"),
        ("[total]\nmax_time_ms = inf", "max_time_ms in [total]: inf is no limit"),
        (f"[total]\nmax_time_ms = 1{'0' * 400}", "max_time_ms in [total]"),
        (
            "[total]\nmax_time_ms = 1\nonly_if_significant = 1",
            "only_if_significant in [total]: Expected `bool",
        ),
        ("variant = 1", "wrong [variant]"),
        ("[variant]\nmax_time_ms = 1", "unknown variant 'max_time_ms'"),
        ("[variant.LayerNrm]\nmax_time_ms = 1", "variant 'LayerNrm' in [variant], did you mean LayerNorm?"),
        ("[variant.LayerNorm]\nmax_ms = 1", "unknown key 'max_ms' in [variant.LayerNorm]"),
        ("[variant.LayerNorm]", "set no limit in [variant.LayerNorm]"),
        ("[operation]\nname = 'x'", "[[operation]], in double brackets"),
        ("operation = [1]", "wrong [[operation]] number 1: it must be a table"),
        ("[[operation]]\nmax_time_ms = 1", "[[operation]] number 1: Object missing required field `name`"),
        ("[[operation]]\nname = ''\nmax_time_ms = 1", "value of name in [[operation]] number 1"),
        ("[[operation]]\nname = 3\nmax_time_ms = 1", "value of name in [[operation]] number 1"),
        ("[[operation]]\nname = 'x'", "set no limit in [[operation]] number 1"),
        (
            "[[operation]]\nname = 'x'\nmax_time_ms = 1\n[[operation]]\nname = 'y'\nmax_tme_ms = 1",
            "key 'max_tme_ms' in [[operation]] number 2, did you mean max_time_ms?",
        ),
        (
            "[[operation]]\nname = 'x'\ndirection = 'up'\nmax_time_ms = 1",
            "value of direction in [[operation]]",
        ),
        ("[coverage]\nalow_new = true", "'alow_new' in [coverage], did you mean allow_new?"),
        ("[coverage]\nallow_new = 1", "allow_new in [coverage]: Expected `bool`"),
        ("[coverage]\nmax_unattributed_percent = -1", "max_unattributed_percent in [coverage]"),
        ("[coverage]\nmax_unattributed_increase_percent = nan", "max_unattributed_increase_percent in [cov"),
        ("[total]\nmax_time_ms =", "no valid TOML"),
        ("[total]\nmax_time_ms = 1\nmax_time_ms = 2", "no valid TOML"),
        (f"a = {'[' * 100_000}", "no valid TOML"),
        ('"\\u001b[31m" = 1', r"unknown table '\\x1b[31m'"),
        (f"{'x' * 5000} = 1", "unknown table 'xxx"),
    ],
)
def test_a_mistake_is_one_sentence_that_names_table_and_key(text: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_limits(text, "my.toml")
    message = str(caught.value)
    assert says in message
    assert message.startswith("the limits my.toml ")
    assert message.endswith(HOW_TO_WRITE)
    assert "\n" not in message
    assert len(message) < 500


def test_a_file_that_can_not_be_read_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.toml can't be read \(No such file"):
        read_limits(tmp_path / "none.toml")
    with pytest.raises(InputError, match="can't be read"):
        read_limits(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b'[[operation]]\nname = "\xe4"')
    with pytest.raises(InputError, match="no UTF-8"):
        read_limits(tmp_path / "latin.toml")


def test_a_file_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    (tmp_path / "bom.toml").write_bytes(b"\xef\xbb\xbf[total]\nmax_time_ms = 3\n")
    assert read_limits(tmp_path / "bom.toml").total.max_time_ms == 3.0


def test_the_example_to_copy_is_valid_and_states_the_defaults_of_the_coverage() -> None:
    limits = read_limits(ROOT / "parameters" / "limits.toml")
    assert limits.total.max_increase_percent == 10
    assert limits.coverage == CoverageLimits()
    assert len(limits.operation) == 1


def test_the_example_of_the_page_is_valid() -> None:
    (block,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text("utf-8"), re.S)
    limits = parse_limits(block, "docs/limits.md")
    assert limits.variant["LayerNorm"].only_if_significant
    assert limits.coverage.allow_new


def documented_keys() -> dict[str, set[str]]:
    """Return the keys of the page's table, with the tables that each is for."""
    text = PAGE.read_text("utf-8")
    table = text[text.index("## Keys") : text.index("**Patterns**")]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if "| `" in line]
    return {row[0].strip("`"): set(row[1].split(", ")) for row in rows}


def test_the_page_lists_exactly_the_keys_and_their_tables() -> None:
    keys: dict[str, set[str]] = {}
    for table, kind in KINDS.items():
        for field in msgspec.structs.fields(kind):
            keys.setdefault(field.name, set()).add(table)
    assert documented_keys() == keys


def test_patterns_that_backtrack_badly_elsewhere_are_quick() -> None:
    """A wrong choice of pattern matching would not end within the age of the universe."""
    from gate_inputs import group

    limits = parse_limits(f'[[operation]]\nname = "{"*a" * 60}b"\nmax_time_ms = 1', "x")
    assert not limits.operation[0].fits(group(name="a" * 10_000))
