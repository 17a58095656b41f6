"""Parameters are checked before anything runs, and a wrong one is named with its remedy."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import ROOT
from normscope.errors import UsageError
from normscope.params import ReportParams, make_params, read_given

NAMES = (
    *("run_dir", "out_dir", "categories", "comparison_scope", "command_prefix", "top_n"),
    *("gpu", "gpu_file", "peaks", "catalog", "capture"),
)
DEFAULTS = {
    "run_dir": "sample",
    "out_dir": "outputs/sample",
    "categories": [],
    "comparison_scope": "standalone",
    "command_prefix": "",
    "top_n": 20,
    "gpu": "",
    "gpu_file": "",
    "peaks": "datasheet",
    "catalog": "",
    "capture": "",
}


def write(folder: Path, text: str | bytes, name: str = "p.yaml") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_nothing_given_is_the_sample_with_the_documented_defaults() -> None:
    assert msgspec.to_builtins(make_params({})) == DEFAULTS


@pytest.mark.parametrize("text", ["", "\n", "# nothing but a comment\n", "---\n", "{}"])
@pytest.mark.parametrize("name", ["p.yaml", "p.yml"])
def test_an_empty_file_gives_nothing(tmp_path: Path, text: str, name: str) -> None:
    assert read_given(write(tmp_path, text, name)) == {}


@pytest.mark.parametrize("name", ["empty.json", "empty.toml"])
def test_a_zero_byte_file_gives_nothing_in_every_format(tmp_path: Path, name: str) -> None:
    assert read_given(write(tmp_path, "", name)) == {}


@pytest.mark.parametrize("name", ["sample", "standalone", "comparative"])
def test_each_shipped_parameter_file_is_accepted_and_lists_every_parameter(name: str) -> None:
    path = ROOT / "parameters" / f"{name}.yaml"
    assert set(read_given(path)) == set(NAMES)
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [line.split(":")[0] for line in lines if line and line[0].isalpha()] == list(NAMES)


def test_the_sample_file_says_what_the_defaults_say() -> None:
    assert make_params(read_given(ROOT / "parameters" / "sample.yaml")) == ReportParams()


def test_the_comparative_file_asks_for_the_comparative_scope() -> None:
    assert read_given(ROOT / "parameters" / "comparative.yaml")["comparison_scope"] == "comparative"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("p.yaml", "top_n: 5\ncategories: [norm_fwd]\n"),
        ("p.json", '{"top_n": 5, "categories": ["norm_fwd"]}'),
        ("p.toml", 'top_n = 5\ncategories = ["norm_fwd"]\n'),
        ("byte-order-mark.yaml", "\ufefftop_n: 5\ncategories: [norm_fwd]\n"),
        ("windows.yaml", "top_n: 5\r\ncategories: [norm_fwd]\r\n"),
    ],
)
def test_yaml_json_and_toml_mean_the_same(tmp_path: Path, name: str, text: str) -> None:
    assert read_given(write(tmp_path, text, name)) == {"top_n": 5, "categories": ["norm_fwd"]}


@pytest.mark.parametrize(
    ("given_name", "nearest"),
    [
        ("topn", "top_n"),
        ("rundir", "run_dir"),
        ("category", "categories"),
        ("comparison-scope", "comparison_scope"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_known_one(given_name: str, nearest: str) -> None:
    with pytest.raises(UsageError) as caught:
        make_params({given_name: "x"}, "p.yaml")
    message = str(caught.value)
    assert message.startswith("p.yaml: ")
    assert given_name in message
    assert f"did you mean {nearest}?" in message
    assert all(name in message for name in NAMES)


def test_a_name_like_none_of_ours_is_refused_without_a_guess() -> None:
    with pytest.raises(UsageError) as caught:
        make_params({"zzzz": 1})
    assert "did you mean" not in str(caught.value)
    assert "top_n" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("top_n: 0", ["top_n", "0", "1 to 1000"]),
        ("top_n: 1001", ["top_n", "1001", "1 to 1000"]),
        ("top_n: 2.5", ["top_n", "2.5", "whole number"]),
        ("top_n: 1e2", ["top_n", "'1e2'", "without quotes and exponent"]),
        ("top_n: '5'", ["top_n", "'5'", "without quotes"]),
        ("top_n: yes", ["top_n", "True", "YAML reads yes"]),
        ("top_n:", ["top_n", "empty", "1 to 1000"]),
        ("run_dir: no", ["run_dir", "False", "quotes"]),
        ("run_dir: 2026-01-31", ["run_dir", "2026", "path"]),
        ("run_dir: ''", ["run_dir", "''", "path"]),
        ('run_dir: "a\\0b"', ["run_dir", "path"]),
        ("categories: norm_fwd", ["categories", "'norm_fwd'", "list"]),
        ("categories: [1]", ["categories", "[1]", "list"]),
        ("comparison_scope: both", ["comparison_scope", "'both'", "standalone or comparative"]),
        ("command_prefix: docker exec box", ["command_prefix", "docker", "cache"]),
    ],
)
def test_a_wrong_value_is_refused_with_file_name_value_and_what_is_allowed(
    tmp_path: Path, text: str, says: list[str]
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        read_given(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert all(part in message for part in says), message


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("p.yaml", "run_dir: [a\nout_dir: b\n", "line 2"),
        ("p.yaml", "\trun_dir: a\n", "line 1"),
        ("p.yaml", "run_dir: \x01\n", "not valid YAML"),
        ("p.yaml", "a: 1\n---\nb: 2\n", "not valid YAML"),
        ("p.yaml", "!!python/object/apply:os.getcwd []", "not valid YAML"),
        ("p.json", '{"top_n": 5,', "not valid JSON"),
        ("p.toml", "top_n 5", "not valid TOML"),
        ("p.yaml", b"run_dir: \xff\xfe", "UTF-8"),
        ("p.yaml", "- run_dir", "expected lines such as"),
        ("p.yaml", "just text", "expected lines such as"),
        ("p.yaml", "[" * 5000, "p.yaml: "),
    ],
)
def test_a_file_that_is_no_parameter_file_is_one_sentence_with_its_name(
    tmp_path: Path, name: str, text: str | bytes, says: str
) -> None:
    path = write(tmp_path, text, name)
    with pytest.raises(UsageError) as caught:
        read_given(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("what", ["missing", "folder"])
def test_a_file_that_can_not_be_read_is_named(tmp_path: Path, what: str) -> None:
    path = tmp_path / "p.yaml"
    if what == "folder":
        path.mkdir()
    with pytest.raises(UsageError, match="can't be read"):
        read_given(path)


@pytest.mark.parametrize("category", ["../norm_fwd", "a/b", "", ".hidden", "a b", "norm\n"])
def test_a_category_that_is_no_file_name_is_refused(category: str) -> None:
    with pytest.raises(UsageError, match="category"):
        make_params({"categories": [category]})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=12), json_values, max_size=4))
def test_any_mapping_is_either_parameters_of_plain_json_types_or_a_printable_usage_error(
    values: dict[str, object],
) -> None:
    try:
        params = make_params(values)
    except UsageError as error:
        assert str(error).isprintable()
    else:
        assert msgspec.json.decode(msgspec.json.encode(params)) == DEFAULTS | values
