"""The baseline file: small, rounded, stable, and read back as what it was, or refused with one sentence."""

import json
import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate_inputs import compared, group, judged, side
from normscope.compare.baseline import decode_baseline, encode_baseline
from normscope.compare.models import CallGroup
from normscope.errors import InputError

SIDE = side(
    group(
        1234.5678901234,
        3,
        times_us=(400.0, 400.0, 434.5678901234),
        std_us=19.957876,
        efficiency_percent=42.97,
        kernels=("vectorized_layer_norm_kernel",),
        found_by="op",
        library="PyTorch Native",
        bytes_moved_per_call=16793600.0,
    ),
    group(2.0, 1, arguments=None, module="", direction="backward", order=1),
    label="main",
    steps=2,
    peak_bandwidth_tbs=5.3,
    coverage_us={"explicit": 1236.567890123, "other_ops": 8000.0},
)
FILE = b"""\
{
  "schema_version": "1.0",
  "label": "main",
  "kind": "baseline",
  "gpu": "GPU A",
  "peak_bandwidth_tbs": 5.3,
  "end_to_end_ms": 10.0,
  "steps": 2,
  "groups": [
    {
      "direction": "forward",
      "variant": "LayerNorm",
      "kind": "norm",
      "found_by": "op",
      "name": "aten::native_layer_norm",
      "module": "Net_0 > Norm_1",
      "arguments": "(4096,1024) bf16<br>(1024,) bf16",
      "library": "PyTorch Native",
      "kernels": [
        "vectorized_layer_norm_kernel"
      ],
      "order": 0,
      "count": 3,
      "total_us": 1234.56789,
      "mean_us": 411.523,
      "std_us": 19.9579,
      "efficiency_percent": 42.97,
      "bytes_moved_per_call": 16793600.0
    },
    {
      "direction": "backward",
      "variant": "LayerNorm",
      "kind": "norm",
      "name": "aten::native_layer_norm",
      "order": 1,
      "count": 1,
      "total_us": 2.0,
      "mean_us": 2.0
    }
  ],
  "coverage_us": {
    "explicit": 1236.57,
    "other_ops": 8000.0
  }
}
"""


def test_the_file_is_small_rounded_and_readable() -> None:
    assert encode_baseline(SIDE).decode() == FILE.decode()


def test_it_is_read_back_without_the_times_of_calls() -> None:
    found = decode_baseline(FILE, "norms.json")
    assert (found.kind, found.label, found.gpu, found.steps) == ("baseline", "main", "GPU A", 2)
    assert [g.times_us for g in found.groups] == [(), ()]
    assert found.groups[0].kernels == ("vectorized_layer_norm_kernel",)
    assert (found.groups[1].arguments, found.groups[1].std_us, found.groups[1].module) == (None, None, "")
    assert encode_baseline(found) == FILE


def test_what_it_loses_by_rounding_is_no_increase() -> None:
    verdict = judged(compared(SIDE, decode_baseline(FILE, "x")), "[total]\nmax_increase_ms = 0")
    assert verdict.outcome == "within"


texts = st.text(max_size=12).filter(lambda text: text.isprintable())
groups = st.builds(
    lambda total, count, name, std: group(total, count, name=name, std_us=std, times_us=(1.0,) * count),
    st.floats(0, 1e9),
    st.integers(1, 9),
    texts,
    st.none() | st.floats(0, 1e6),
)


@given(st.lists(groups, max_size=5), texts)
def test_it_holds_any_side_and_writing_it_again_changes_nothing(made: list[CallGroup], label: str) -> None:
    data = encode_baseline(side(*made, label=label))
    found = decode_baseline(data, "x")
    assert encode_baseline(found) == data
    assert [g.name for g in found.groups] == [g.name for g in made]
    assert all(
        math.isclose(a.total_us, b.total_us, rel_tol=5e-9) for a, b in zip(found.groups, made, strict=True)
    )


def changed(**values: object) -> bytes:
    return json.dumps(json.loads(FILE) | values).encode()


def changed_group(**values: object) -> bytes:
    document = json.loads(FILE)
    document["groups"][0] |= values
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"not JSON",
        FILE[:-30],
        b"[" * 100_000,
        b'{"schema_version": "1.0"}',
        changed(schema_version="2.0"),
        changed(schema_version="0.9"),
        changed(schema_version="1.1"),
        changed(schema_version=""),
        changed(schema_version=1.0),
        changed(schema_version="\x1b[31m" + "9" * 5000),
        changed(schema_version=None),
        changed(groups=None),
        changed(steps=-1),
        changed(steps="two"),
        changed(coverage_us={"explicit": -1.0}),
        changed_group(total_us=-1.0),
        changed_group(total_us=None),
        changed_group(mean_us=-1.0),
        changed_group(std_us=-1.0),
        changed_group(count=0),
        changed_group(count=1.5),
        changed_group(direction="sideways"),
        changed_group(name=None),
        FILE.replace(b"1234.56789", b"1e999"),
        FILE.replace(b"1234.56789", b"NaN"),
    ],
)
def test_what_is_no_baseline_is_refused_with_one_sentence(data: bytes) -> None:
    with pytest.raises(InputError) as caught:
        decode_baseline(data, "norms.json")
    message = str(caught.value)
    assert "norms.json" in message
    assert message.isprintable()
    assert len(message) < 300


def test_a_side_that_makes_no_sense_is_no_baseline() -> None:
    with pytest.raises(InputError, match=r"total_us of groups\[0\] is nan"):
        encode_baseline(side(group(math.nan)))


def test_a_label_that_is_no_unicode_is_spelt_out() -> None:
    data = encode_baseline(side(group(), label="run \udcff"))
    assert decode_baseline(data, "x").label == "run \\udcff"


def test_every_field_of_a_side_and_its_groups_survives() -> None:
    """A field that encoding drops or decoding forgets shows here."""
    full = msgspec.structs.replace(SIDE, kind="baseline", groups=SIDE.groups[:1])
    found = decode_baseline(encode_baseline(full), "x")
    for field in type(full).__struct_fields__:
        if field not in ("groups", "coverage_us"):
            assert getattr(found, field) == getattr(full, field), field
    for field in CallGroup.__struct_fields__:
        if field not in ("times_us", "total_us", "mean_us", "std_us"):
            assert getattr(found.groups[0], field) == getattr(full.groups[0], field), field
