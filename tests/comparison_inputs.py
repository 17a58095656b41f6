"""Comparisons made by hand, so that what is to be said of them can be worked out by hand."""

import random
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev

import msgspec

from normscope.compare.models import CallGroup, Comparison, Pair, Side, Significance
from report_inputs import HOSTILE_NAMES, norm_row, write_run


def group(
    total_us: float = 100.0,
    *,
    order: int = 0,
    count: int = 10,
    times_us: Sequence[float] = (),
    **more: object,
) -> CallGroup:
    """Return calls of a layer norm that take that time together, but for what the test says."""
    times = tuple(times_us)
    usual: dict[str, object] = {
        "direction": "forward",
        "variant": "LayerNorm",
        "name": "aten::layer_norm",
        "module": "Net_0 > LayerNorm_0",
        "arguments": "(8,128,1024) bf16<br>(1024,) bf16",
        "library": "PyTorch Native",
        "kernels": ("vectorized_layer_norm_kernel",),
        "order": order,
        "count": len(times) or count,
        "total_us": sum(times) if times else total_us,
        "times_us": times,
        "mean_us": mean(times) if times else total_us / count,
        "std_us": stdev(times) if len(times) > 1 else None,
        "bytes_moved_per_call": 4e6,
    }
    return msgspec.convert(usual | more, CallGroup)


def side(*groups: CallGroup, **more: object) -> Side:
    """Return a side on a GPU of 4 TB/s, but for what the test says."""
    usual: dict[str, object] = {
        "label": "step",
        "kind": "trace",
        "gpu": "Test GPU",
        "peak_bandwidth_tbs": 4.0,
        "end_to_end_ms": 10.0,
        "groups": tuple(groups),
    }
    return Side(**(usual | more))  # type: ignore[arg-type]  # what a test wants


def significance(effect_size: float = -1.0, *, p_value: float = 0.001, is_real: bool = True) -> Significance:
    """Return a test that says, unless told otherwise, that side 1 is slower for real."""
    return Significance(test="Mann-Whitney U", p_value=p_value, effect_size=effect_size, is_real=is_real)


SLOWER = significance(-1.0)
FASTER = significance(1.0)
NOISE = significance(-0.1, p_value=0.7, is_real=False)


def pair(place1: int, place2: int, us: tuple[float, float], test: Significance | None = None) -> Pair:
    """Return a pair of one group each."""
    return Pair(
        first=(place1,),
        second=(place2,),
        paired_by="module and arguments",
        time1_us=us[0],
        time2_us=us[1],
        significance=test,
    )


def comparison(first: Side, second: Side, tests: Sequence[Significance | None], **more: object) -> Comparison:
    """Return the groups of both sides paired by place, as many as there are tests; the rest is alone."""
    scale = float(str(more.get("scale", 1.0)))
    pairs = tuple(
        pair(i, i, (first.groups[i].total_us, second.groups[i].total_us * scale), test)
        for i, test in enumerate(tests)
    )
    usual: dict[str, object] = {
        "scale": scale,
        "normalized": "as recorded",
        "pairs": pairs,
        "only_first": tuple(range(len(tests), len(first.groups))),
        "only_second": tuple(range(len(tests), len(second.groups))),
    }
    return Comparison(first=first, second=second, **(usual | more))  # type: ignore[arg-type]  # as above


def shape(rows: int) -> str:
    """Return arguments whose first one has that many rows."""
    return f"({rows},1024) bf16<br>(1024,) bf16"


def noisy(median_us: float, spread: float, count: int = 40, seed: int = 1) -> tuple[float, ...]:
    """Return times of calls about a median."""
    chance = random.Random(seed)
    return tuple(max(0.0, chance.gauss(median_us, spread * median_us)) for _ in range(count))


def realistic() -> Comparison:
    """Return a comparison with some of everything: slower, faster, noise, untested, alone, changed."""
    medians = ((60.0, 42.0, 512), (33.0, 31.0, 256), (12.0, 12.1, 128), (5.0, 6.0, 64), (9.0, 9.0, 32))
    first, second = [], []
    for i, (one, two, rows) in enumerate(medians):
        direction = "backward" if i % 2 else "forward"
        name = "aten::native_layer_norm_backward" if i % 2 else "aten::layer_norm"
        common = {"order": i, "arguments": shape(rows), "direction": direction, "name": name}
        common |= {"module": f"Net_0 > LayerNorm_{i}", "bytes_moved_per_call": rows * 4096.0 * 10}
        first.append(group(times_us=noisy(one, 0.04, seed=i), **common))  # type: ignore[arg-type]  # as above
        changed = {"library": "Triton", "kernels": ("triton_layer_norm",)} if i == 0 else {}
        second.append(group(times_us=noisy(two, 0.05, seed=9 + i), **(common | changed)))  # type: ignore[arg-type]  # as above
    first += [group(150.0, order=5, count=1, arguments=shape(16)), group(300.0, order=6, arguments=shape(8))]
    second += [
        group(120.0, order=5, count=1, arguments=shape(16)),
        group(80.0, order=6, name="aten::rms_norm", variant="RMSNorm"),
    ]
    tests = (SLOWER, SLOWER, NOISE, FASTER, NOISE, None)
    return comparison(
        side(*first, label="before", coverage_us={"explicit": 5000.0, "other_ops": 30000.0}),
        side(
            *second,
            label="after",
            gpu="Other GPU",
            peak_bandwidth_tbs=5.0,
            coverage_us={"explicit": 4000.0, "other_ops": 30000.0, "compiled_fused": 100.0},
        ),
        tests,
    )


def many(amount: int = 200) -> Comparison:
    """Return that many pairs, each with its shape; every second one is slower in trace 1."""
    first = [
        group(1000.0 + i, order=i, arguments=shape(i + 1), module=f"Net_0 > LayerNorm_{i}")
        for i in range(amount)
    ]
    second = [
        group(1000.0 - 2 * i, order=i, arguments=shape(i + 1), module=f"Net_0 > LayerNorm_{i}")
        for i in range(amount)
    ]
    return comparison(side(*first), side(*second), [SLOWER if i % 2 else NOISE for i in range(amount)])


def hostile() -> Comparison:
    """Return a comparison whose every name tries to break out."""
    first = [
        group(
            times_us=noisy(50.0 + i, 0.05),
            order=i,
            name=name,
            module=f"{name} > {name}",
            library=name,
            arguments=f"{name} bf16<br>{name}",
            kernels=(name,),
        )
        for i, name in enumerate(HOSTILE_NAMES)
    ]
    second = [
        group(
            times_us=noisy(40.0 + i, 0.05),
            order=i,
            name=name[::-1],
            module=name,
            library=name + "2",
            arguments=name,
            kernels=(name, name),
        )
        for i, name in enumerate(HOSTILE_NAMES)
    ]
    tests = [SLOWER, None, NOISE, FASTER] * (len(HOSTILE_NAMES) // 4 - 1)
    evil = "<script>window.pwned=1</script>|`[x](javascript:1)\x1b[31m"
    return comparison(
        side(*first, label=evil, gpu=evil, coverage_us={evil: 3.0}),
        side(*second, label=evil[::-1], gpu=HOSTILE_NAMES[3]),
        tests,
    )


def write_comparison_run(folder: Path, compared: Comparison) -> Path:
    """Write a run directory of trace 1's operations in the comparative scope, with the comparison in it."""
    rows = [
        norm_row(each.name, **{
            "count": each.count, "operation_count": each.count,
            "Kernel Time (µs)_sum": each.total_us,
            "Kernel Time (µs)_mean": each.mean_us,
            "trace2 Kernel Time (µs)_sum": each.total_us * 0.9,
        })
        for each in compared.first.groups
    ]  # fmt: skip
    write_run(folder, {"norm_fwd": rows})
    (folder / "category_data" / "comparison.json").write_bytes(msgspec.json.encode(compared))
    return folder
