"""The catalog: what its loader refuses, in which order rows are tried, and that it has every known norm."""

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from norm_events import BF16, F32, recorded
from normscope.errors import InputError
from normscope.norms.catalog import catalog, rows
from normscope.norms.catalog.catalog import HOW_TO_WRITE, Catalog, builtin_rows, load_catalog, read_rows
from normscope.norms.catalog.rows import NormRow
from normscope.norms.cost import norm_cost
from normscope.norms.formulas import BYTES, FLOPS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "catalog.md"
ROW: Mapping[str, object] = {
    "id": "mine",
    "library": "mylib",
    "variant": "RMSNorm",
    "ops": ["mylib::norm"],
    "evidence": "source",
    "source": "mylib",
}


def toml(*changes: Mapping[str, object]) -> bytes:
    """Return a file with one row for each of ``changes`` to ``ROW``; None leaves a field out."""
    lines = []
    for change in changes:
        lines.append("[[norm]]")
        fields = {**ROW, **change}
        lines += [f"{key} = {json.dumps(value)}" for key, value in fields.items() if value is not None]
    return "\n".join(lines).encode()


def complaint(content: bytes) -> str:
    with pytest.raises(InputError) as caught:
        read_rows(content, "mine.toml")
    return str(caught.value)


def refused(what: str) -> str:
    return f"the catalog mine.toml has a row 'mine' {what}; {HOW_TO_WRITE}"


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"ops": []}, "that matches nothing: give ops, op_pattern or kernels"),
        (
            {"bytes": "some"},
            f"with the unknown bytes formula 'some' (known: {', '.join(sorted(BYTES))})",
        ),
        (
            {"flops": "many"},
            f"with the unknown FLOPs formula 'many' (known: {', '.join(sorted(FLOPS))})",
        ),
        (
            {"returns": "y z"},
            f"that returns 'z' (known: {', '.join(rows.RETURNED)})",
        ),
        ({"saved": "mean"}, "that saves 'mean' (known: save_mean, save_invstd)"),
        (
            {"arguments": "x X"},
            "with the argument 'X', which is no role (such as: x, >y, <>residual, bias?, _)",
        ),
        (
            {"arguments": "x <y"},
            "with the argument '<y', which is no role (such as: x, >y, <>residual, bias?, _)",
        ),
        ({"arguments": "x _ weight _ >x"}, "with two arguments 'x'"),
        ({"arguments": "x weight? weight"}, "with two arguments 'weight'"),
        (
            {"arguments": "x ?weight"},
            "with the argument '?weight', which is no role (such as: x, >y, <>residual, bias?, _)",
        ),
        ({"library": " "}, "whose library is empty"),
        ({"source": ""}, "whose source is empty"),
        ({"ops": ["mylib::norm", ""]}, "with an empty name among its ops"),
        ({"kernels": [""]}, "with a pattern that fits any name, as it fits an empty one ('')"),
        ({"kernels": ["norm", "a*"]}, "with a pattern that fits any name, as it fits an empty one ('a*')"),
        ({"op_pattern": ".*"}, "with a pattern that fits any name, as it fits an empty one ('.*')"),
        (
            {"arguments": "x weight", "scalar_at": -1},
            "with scalar_at -1, which is no place among its 2 arguments",
        ),
        (
            {"arguments": "x weight", "scalar_at": 2},
            "with scalar_at 2, which is no place among its 2 arguments",
        ),
        ({"argument_count": [5, 1]}, "with argument_count [5, 1], which is not [least, most]"),
        ({"argument_count": [-1, 1]}, "with argument_count [-1, 1], which is not [least, most]"),
        ({"reads_twice": "zzz"}, "with reads_twice 'zzz', which is none of its arguments"),
        (
            {"arguments": "x weight", "reads_twice": "x dy"},
            "with reads_twice 'dy', which is none of its arguments",
        ),
        (
            {"how": "kernel", "kernels": ["norm"]},
            "with ops although how is 'kernel', which is matched by kernels alone",
        ),
        (
            {"how": "compiled", "kernels": ["norm"], "ops": [], "op_pattern": "x+"},
            "with ops although how is 'compiled', which is matched by kernels alone",
        ),
        (
            {"kernels": ["good", "(bad"]},
            "with a pattern that is no regular expression "
            "('(bad': missing ), unterminated subpattern at position 0)",
        ),
        (
            {"op_pattern": "*"},
            "with a pattern that is no regular expression ('*': nothing to repeat at position 0)",
        ),
        (
            {"op_pattern": "a{99999999999999999999}"},
            "with a pattern that is no regular expression "
            "('a{99999999999999999999}': the repetition number is too large)",
        ),
    ],
)
def test_a_wrong_row_is_refused_in_one_sentence(change: dict[str, object], what: str) -> None:
    assert complaint(toml(change)) == refused(what)


def test_a_row_that_is_there_twice_is_refused() -> None:
    assert complaint(toml({}, {})) == refused("twice")
    assert len(read_rows(toml({}, {"id": "another"}), "mine.toml")) == 2


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (toml({"byte": "tensors"}), "Object contains unknown field `byte` - at `$.norm[0]`"),
        (toml({}, {"variant": "Norm"}), "Invalid enum value 'Norm' - at `$.norm[1].variant`"),
        (toml({"library": None}), "Object missing required field `library` - at `$.norm[0]`"),
        (toml({"ops": "mylib::norm"}), "Expected `array`, got `str` - at `$.norm[0].ops`"),
        (
            toml({"argument_count": [1]}),
            "Expected `array` of length 2, got 1 - at `$.norm[0].argument_count`",
        ),
        (b"norm = 3", "Expected `array`, got `int` - at `$.norm`"),
        (b"[[norm]\n", "Expected ']]' at the end of an array declaration (at line 1, column 7)"),
        (b"\xff", "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
    ],
)
def test_a_file_that_is_no_catalog_is_refused_in_one_sentence(content: bytes, what: str) -> None:
    assert complaint(content) == f"the catalog mine.toml is not right: {what}; {HOW_TO_WRITE}"


def test_a_file_nested_without_end_is_refused_in_one_sentence() -> None:
    message = complaint(b"a = " + b"[" * 10_000)
    assert message.startswith("the catalog mine.toml is not right: ")
    assert "\n" not in message


@pytest.mark.parametrize(
    ("name", "why"), [("absent.toml", "No such file or directory"), ("", "Is a directory")]
)
def test_a_file_that_cannot_be_read_is_one_sentence(name: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / name
    with pytest.raises(InputError) as caught:
        load_catalog(path)
    assert str(caught.value) == (
        f"the catalog {path.name} can't be read ({why}); check its name and permissions"
    )


def refusal(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        load_catalog(path)
    return str(caught.value)


def test_an_id_that_is_empty_is_refused() -> None:
    assert complaint(toml({"id": ""})) == (
        f"the catalog mine.toml has a row '' whose id is empty; {HOW_TO_WRITE}"
    )


@pytest.mark.parametrize("content", [b"", b"# nothing yet\n", b"norm = []"])
def test_a_file_without_a_row_says_what_it_needs(content: bytes, tmp_path: Path) -> None:
    assert refusal(tmp_path / "mine.toml", content) == (
        f"the catalog mine.toml has no row: give at least one [[norm]] table; {HOW_TO_WRITE}"
    )


def test_a_chain_of_small_ops_is_refused_in_a_file_of_a_user(tmp_path: Path) -> None:
    content = toml({"how": "eager", "ops": []})
    assert refusal(tmp_path / "mine.toml", content) == refused(
        "with how 'eager': the forms of chains of small ops are code, no row can add one"
    )


def test_the_row_of_a_chain_can_not_be_replaced(tmp_path: Path) -> None:
    assert refusal(tmp_path / "mine.toml", toml({"id": "eager-rms-norm"})) == (
        "the catalog mine.toml has a row 'eager-rms-norm' whose id is that of a chain of small ops, which no "
        f"row can replace; {HOW_TO_WRITE}"
    )


def test_a_row_with_the_id_of_a_built_in_one_replaces_it(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(toml({"id": "layer-norm", "ops": ["mylib::layer_norm"], "variant": "LayerNorm"}))
    found = load_catalog(path)
    assert [row.library for row in found.rows if row.id == "layer-norm"] == ["mylib"]
    assert found.of_op("aten::native_layer_norm") == ()
    assert found.of_op("mylib::layer_norm") == (found.rows[0],)
    assert len(found.rows) == len(builtin_rows())


def test_the_rows_of_a_file_come_before_ours(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(
        toml(
            {"id": "native", "ops": ["aten::native_layer_norm"], "variant": "Other"},
            {"id": "kernel", "ops": [], "how": "kernel", "kernels": ["vectorized_layer_norm_kernel"]},
            {"id": "not told by its words", "ops": [], "how": "kernel", "kernels": ["^frobnicate$"]},
        )
    )
    found = load_catalog(path)
    assert [row.id for row in found.of_op("aten::native_layer_norm")] == ["native", "layer-norm"]
    kernel = found.of_kernel("void vectorized_layer_norm_kernel<float>(int)")
    assert kernel is not None
    assert kernel.id == "kernel"
    assert found.is_norm_kernel("frobnicate")
    assert not load_catalog().is_norm_kernel("frobnicate")
    assert found.rows[3:] == builtin_rows()


def test_a_layout_with_a_condition_is_tried_before_one_without() -> None:
    plain, conditional = read_rows(
        toml({"arguments": "x weight"}, {"id": "scalar", "arguments": "x _", "scalar_at": 1}), "mine.toml"
    )
    for order in ((plain, conditional), (conditional, plain)):
        found = Catalog(order)
        assert found.layout("mylib::norm", [F32, "Scalar"]) == conditional
        assert found.layout("mylib::norm", [F32, F32]) == plain
        assert found.layout("mylib::norm", None) == plain


def test_a_layout_for_so_many_arguments_fits_no_others() -> None:
    (row,) = read_rows(toml({"argument_count": [2, 3]}), "mine.toml")
    found = Catalog([row])
    counts = [count for count in range(6) if found.layout("mylib::norm", [F32] * count)]
    assert counts == [2, 3]


def test_a_pattern_of_ops_fits_whole_names() -> None:
    (row,) = read_rows(toml({"ops": [], "op_pattern": r"mylib::norm_\d+"}), "mine.toml")
    found = Catalog([row])
    assert found.of_op("mylib::norm_12") == (row,)
    assert found.of_op("mylib::norm_12_more") == ()
    assert found.purpose("mylib::norm_1") == "norm"
    assert found.purpose("aten::add") is None


@pytest.mark.parametrize("name", BYTES)
def test_a_row_without_the_arguments_of_its_formula_gives_a_reason_or_counts_without_them(name: str) -> None:
    (row,) = read_rows(toml({"arguments": "x", "bytes": name}), "mine.toml")
    found = norm_cost(row, recorded((F32, [2, 4, 3])))
    assert (found.bytes_moved is None) == (found.missing_reason is not None)
    needed = {"groups", "training", "query_heads"} & set(BYTES[name].__annotations__)
    if needed:
        assert found.missing_reason is not None
        assert found.missing_reason.startswith("the row mine of the catalog has no argument ")


def test_a_helper_and_what_only_sounds_like_a_norm_are_no_norm_ops() -> None:
    found = load_catalog()
    assert found.purpose("aten::linalg_vector_norm") == "not a norm layer"
    assert not found.is_norm_op("aten::linalg_vector_norm")
    assert found.purpose("sglang_profiler::utils__reshape_for_qk_norm_486") == "helper"
    assert found.is_norm_op("aten::layer_norm")


def test_every_id_is_there_once() -> None:
    counts = Counter(row.id for row in builtin_rows())
    assert [name for name, count in counts.items() if count > 1] == []


def test_every_row_has_its_evidence_and_source() -> None:
    for row in builtin_rows():
        assert row.source.strip(), row.id
        assert row.library.strip(), row.id


# The ways a normalization shows up, by their number in the review of libraries, and the rows that know them.
KNOWN: Mapping[int, tuple[str, ...]] = {
    1: ("batch-norm-wrapper", "batch-norm-native"),
    2: ("batch-norm-backward-native", "batch-norm-backward-wrapper"),
    3: ("batch-norm-cudnn",),
    4: ("batch-norm-backward-cudnn",),
    5: ("batch-norm-miopen",),
    6: ("batch-norm-backward-miopen",),
    8: ("batch-norm-with-update", "batch-norm-inference", "batch-norm-backward-update"),
    9: ("batch-norm-legit", "batch-norm-legit-no-stats", "batch-norm-inference"),
    10: (
        "sync-batch-norm",
        "sync-batch-norm-stats",
        "sync-batch-norm-update-stats",
        "sync-batch-norm-gather",
        "sync-batch-norm-gather-counts",
        "sync-batch-norm-apply",
    ),
    11: (
        *("sync-batch-norm-backward", "sync-batch-norm-backward-reduce"),
        "sync-batch-norm-backward-apply",
    ),
    12: ("instance-norm",),
    13: ("layer-norm-wrapper", "layer-norm"),
    14: ("layer-norm-backward",),
    15: ("group-norm-wrapper", "group-norm"),
    16: ("group-norm-backward",),
    17: ("rms-norm",),
    18: ("rms-norm-backward",),
    19: ("rms-norm-wrapper",),
    22: ("vector-norm",),
    45: (
        *("apex-layer-norm", "apex-layer-norm-plain", "apex-rms-norm", "apex-rms-norm-plain"),
        *("apex-layer-norm-backward", "apex-layer-norm-plain-backward"),
        *("apex-rms-norm-backward", "apex-rms-norm-plain-backward"),
    ),
    46: (
        *("apex-layer-norm-function", "apex-layer-norm-plain-function", "apex-layer-norm-mixed-function"),
        *("apex-rms-norm-function", "apex-rms-norm-plain-function", "apex-rms-norm-mixed-function"),
        *("apex-layer-norm-function-backward", "apex-rms-norm-function-backward"),
    ),
    47: ("apex-fast-layer-norm", "apex-fast-layer-norm-backward"),
    48: ("apex-group-norm", "apex-group-norm-backward"),
    49: (
        *("apex-sync-batch-norm", "apex-sync-batch-norm-add", "apex-sync-batch-norm-backward"),
        *("apex-batch-norm-nhwc", "apex-batch-norm-nhwc-backward"),
        *("apex-batch-norm-add-relu-nhwc", "apex-batch-norm-add-relu-nhwc-backward"),
        *("apex-group-batch-norm", "apex-group-batch-norm-backward"),
    ),
    50: ("te-fuser", "te-fuser-backward"),
    51: ("te-layer-norm", "te-layer-norm-backward", "te-rms-norm", "te-rms-norm-backward"),
    52: ("te-layer-norm-linear", "te-layer-norm-linear-backward"),
    53: (
        *("flash-attn-layer-norm-fn", "flash-attn-layer-norm-fn-old", "layer-norm-fn-backward"),
        *("flash-attn-layer-norm", "flash-attn-layer-norm-backward"),
        *("flash-attn-layer-norm-linear", "flash-attn-layer-norm-linear-backward"),
    ),
    54: (
        *("flash-attn-dropout-layer-norm", "flash-attn-dropout-layer-norm-backward"),
        *("flash-attn-dropout-layer-norm-subset", "flash-attn-dropout-layer-norm-parallel"),
        "flash-attn-dropout-layer-norm-other-backward",
    ),
    55: ("mamba-gated-layer-norm", "layer-norm-fn-backward"),
    57: (
        *("liger-rms-norm", "liger-rms-norm-backward", "liger-layer-norm", "liger-layer-norm-backward"),
        *("liger-group-norm", "liger-group-norm-backward", "liger-add-rms-norm"),
        *("liger-add-rms-norm-backward", "liger-poly-norm", "liger-poly-norm-backward"),
        *("liger-modulated-rms-norm", "liger-modulated-rms-norm-backward"),
    ),
    58: (
        *("unsloth-rms-norm", "unsloth-rms-norm-backward"),
        *("unsloth-layer-norm", "unsloth-layer-norm-backward"),
    ),
    60: (
        *("quack-rms-norm-function", "quack-rms-norm", "quack-rms-norm-function-backward"),
        *("quack-rms-norm-backward", "quack-rms-norm-backward-functional"),
    ),
    61: ("triton-tutorial-layer-norm", "triton-tutorial-layer-norm-backward"),
    63: (
        *("apex-layer-norm-function", "apex-fast-layer-norm", "te-layer-norm", "te-fuser"),
        *("megatron-batch-invariant-rms-norm", "megatron-batch-invariant-rms-norm-backward"),
    ),
    23: ("compiled-layer-norm", "compiled-layer-norm-backward"),
    24: ("compiled-rms-norm", "compiled-rms-norm-backward"),
    25: ("compiled-rms-norm-in-python",),
    26: ("compiled-batch-norm", "compiled-batch-norm-backward"),
    27: ("compiled-group-norm", "compiled-group-norm-backward"),
    28: ("vllm-rms-norm",),
    29: ("vllm-add-rms-norm",),
    30: (
        *("vllm-rms-norm-static-quant", "vllm-add-rms-norm-static-quant"),
        *("vllm-rms-norm-token-quant", "vllm-rms-norm-block-quant"),
    ),
    31: ("vllm-qk-norm-rope",),
    32: ("vllm-allreduce-rms-norm",),
    33: (
        *("vllm-aiter-rms-norm", "vllm-aiter-add-rms-norm", "vllm-aiter-rms-norm-group-quant"),
        *("vllm-aiter-add-rms-norm-group-quant", "vllm-aiter-add-rms-norm-pad"),
    ),
    34: ("aiter-rms-norm", "aiter-rmsnorm", "aiter-rmsnorm-triton", "aiter-rmsnorm-triton-backward"),
    35: ("aiter-add-rmsnorm", "aiter-add-rmsnorm-in-place", "aiter-add-rmsnorm-triton"),
    36: (
        *("aiter-rmsnorm-quant", "aiter-add-rmsnorm-quant"),
        *("aiter-rmsnorm-smoothquant", "aiter-add-rmsnorm-smoothquant"),
    ),
    37: (
        *("aiter-allreduce-rmsnorm", "aiter-allreduce-rmsnorm-quant", "aiter-allreduce-rmsnorm-quant-both"),
        *("aiter-allreduce-rmsnorm-group-quant", "aiter-allreduce-rmsnorm-group-quant-both"),
        *("aiter-qk-norm-allreduce", "aiter-qk-norm-allreduce-rope", "aiter-allreduce-rmsnorm-low"),
    ),
    38: (
        *("aiter-layer-norm", "aiter-add-layer-norm", "aiter-layer-norm-smoothquant"),
        *("aiter-add-layer-norm-smoothquant", "aiter-layer-norm-triton"),
    ),
    39: ("aiter-group-norm-old", "aiter-group-norm"),
    40: ("aiter-gated-rmsnorm-quant", "aiter-qk-rmsnorm-quant", "aiter-qk-norm-rope-cache"),
    41: ("sglang-aiter-rmsnorm", "sglang-aiter-add-rmsnorm", "sglang-qk-norm-reshape"),
    42: ("sgl-kernel-rmsnorm", "sgl-kernel-add-rmsnorm"),
    43: (
        *("flashinfer-rmsnorm", "flashinfer-rmsnorm-quant", "flashinfer-add-rmsnorm"),
        *("flashinfer-add-rmsnorm-quant", "flashinfer-layer-norm", "flashinfer-dit-layer-norm"),
    ),
    44: ("tensorrt-llm-rmsnorm", "tensorrt-llm-add-rmsnorm"),
    56: ("fla-gated-norm", "fla-gated-norm-backward", "fla-l2-norm", "fla-l2-norm-backward"),
    59: ("xformers-rms-norm", "xformers-add-rms-norm"),
    62: (
        *("deepspeed-block", "deepspeed-layer-norm", "deepspeed-add-layer-norm", "deepspeed-rms-norm"),
        *("deepspeed-add-rms-norm", "deepspeed-layer-norm-backward"),
    ),
    64: ("ck-rmsnorm", "ck-add-rmsnorm", "ck-rmsnorm-quant", "ck-layer-norm", "ck-batch-norm"),
    65: ("miopen-layer-norm", "miopen-add-layer-norm", "miopen-t5-norm", "miopen-group-norm"),
    66: ("primus-ln-modulate", "primus-ln-modulate-backward"),
    67: ("apex-cudnn-layer-norm", "apex-cudnn-layer-norm-backward"),
    20: ("eager-rms-norm", "eager-rms-norm-backward", "eager-layer-norm", "eager-layer-norm-backward"),
    21: ("eager-rms-norm",),
}
NO_ROW: Mapping[int, str] = {7: "additions to a counter are found beside batch norms, not by a row"}


def test_each_way_that_a_normalization_shows_up_has_a_row() -> None:
    assert set(KNOWN) | set(NO_ROW) == set(range(1, 68))
    assert not set(KNOWN) & set(NO_ROW)
    ids = {row.id for row in builtin_rows()}
    for number, names in KNOWN.items():
        assert names, number
        assert set(names) <= ids, number


def test_every_row_of_pytorch_and_of_training_libraries_is_known_by_its_number() -> None:
    known = {name for names in KNOWN.values() for name in names}
    only_extra = {"batch-norm-quantized", "weight-norm"}
    for file in ("pytorch.toml", "training.toml"):
        content = (Path(catalog.__file__).parent / file).read_bytes()
        assert {row.id for row in read_rows(content, file)} - known <= only_extra


# The page about the catalog.


def example() -> tuple[NormRow, ...]:
    (block,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text("utf-8"), re.S)
    return read_rows(block.encode(), "docs/catalog.md")


def test_the_example_of_the_page_is_valid_and_gives_the_bytes_that_it_states() -> None:
    (row,) = example()
    matrix = (BF16, [4096, 1024])
    args = recorded(matrix, matrix, (BF16, [1024]), (F32, [4096]), "1e-06")
    (stated,) = re.findall(r"\*\*(\d+) bytes\*\* a call", PAGE.read_text("utf-8"))
    # x and y of 4096 * 1024 * 2 B, a weight of 1024 * 2 B, a scale of 4096 * 4 B
    assert int(stated) == 2 * 8388608 + 2048 + 16384
    found = norm_cost(row, args)
    assert found.bytes_moved == int(stated)
    # 3 operations an element and one for the weight, 2 a row
    assert found.flops == 4 * 4096 * 1024 + 2 * 4096
    assert row.names_kernel("void mylib::scaled_rms_norm_kernel<float>(float*)")


def test_the_page_explains_every_field_formula_and_role_and_nothing_else() -> None:
    text = PAGE.read_text("utf-8")
    table = text[text.index("## Fields") : text.index("## Arguments")]
    fields = {
        name
        for line in table.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`(\w+)`", line.split("|")[1])
    }
    assert fields == {field.name for field in msgspec.structs.fields(NormRow)}
    formulas = text[text.index("## Formulas") :]
    missing = [
        name
        for name in BYTES
        if f"`{name}`" not in formulas and f"`{name.removesuffix('_backward')}`" not in formulas
    ]
    assert missing == []


def test_messages_point_to_the_page() -> None:
    assert "docs/catalog.md" in HOW_TO_WRITE
    assert PAGE.is_file()
