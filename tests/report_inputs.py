"""Run directories made by hand for the tests of the report: ordinary, large and hostile ones."""

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from normscope.analysis.analyze import analyze_category
from normscope.analysis.models import Scope
from normscope.report.results import Report

COLUMNS = (
    "name",
    "count",
    "operation_count",
    "Kernel Time (µs)_sum",
    "Kernel Time (µs)_mean",
    "Kernel Time (µs)_std",
    "FLOPS/Byte",
    "TFLOPS/s_mean",
    "TB/s_mean",
    "Compute Spec",
    "Roofline Bound",
    "Pct Roofline_mean",
    "Input Dims",
    "Input type",
    "kernel_details_summary",
    "call_stack_full",
    "entry_point",
)
HOSTILE_NAMES = (
    "pipe|pipe||",
    "tick`tick``tick",
    "<script>window.pwned=1</script>",
    "<img src=x onerror=window.pwned=1>",
    "[click](javascript:window.pwned=1)",
    "![x](https://evil.example/x.png) <https://evil.example>",
    "</table></div><iframe src=https://evil.example></iframe>",
    '" onmouseover="window.pwned=1',
    "' style='background:url(https://evil.example/y)",
    "esc\x1b[31mred\x07\x00bell",
    "line\nbreak\r\nand\ttab <br> here",
    "&lt;script&gt;&#60;b&#62;",
    "$a^2$ ${7*7} {{ 7*7 }} {% raw %} {# x #}",
    "# heading\n## Recommendations\n### P9: fake",
    "<!-- impact-end --> --> <!--",
    "\u202eright to left\u202c \u05d0\u05d1 \u0645\u0631\u062d\u0628\u0627",
    "emoji 🚀 和 中文 カーネル",
    "zero\u200bwidth\ufeffmark\u2028line\u2029paragraph",
    "x" * 4000,
    "norm_kernel<float, at::native::Var<c10::BFloat16> >&&*_~",
)


def norm_row(name: str = "aten::layer_norm", **cells: object) -> dict[str, object]:
    """Return one row of an ops table: a memory-bound norm of 1 ms at a fifth of the roofline."""
    row: dict[str, object] = {
        "name": name,
        "count": 10,
        "operation_count": 10,
        "Kernel Time (µs)_sum": 1000.0,
        "Kernel Time (µs)_mean": 100.0,
        "Kernel Time (µs)_std": 1.0,
        "FLOPS/Byte": 1.25,
        "TFLOPS/s_mean": 1.0,
        "TB/s_mean": 0.8,
        "Compute Spec": "vector_bf16",
        "Roofline Bound": "MEMORY_BOUND",
        "Pct Roofline_mean": 20.0,
        "Input Dims": "((8, 128, 1024), (1024,))",
        "Input type": "('c10::BFloat16', 'c10::BFloat16')",
        "kernel_details_summary": "[{'name': 'norm_kernel'}]",
        "call_stack_full": "['nn.Module: Net', 'model.py(1): forward', 'norm_kernel']",
        "entry_point": "model.py(1): forward",
    }
    return row | cells


def write_run(
    folder: Path,
    categories: Mapping[str, Sequence[Mapping[str, object]]],
    platform: str = "Test GPU",
    end_to_end_ms: float | None = 100.0,
) -> Path:
    """Write a run directory with one ops table and one metadata file per category."""
    for name, rows in categories.items():
        table = folder / "category_data" / f"{name}_ops.csv"
        table.parent.mkdir(parents=True, exist_ok=True)
        with table.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(
                file, dict.fromkeys([*COLUMNS, *(column for row in rows for column in row)])
            )
            writer.writeheader()
            writer.writerows(rows)
        metadata = {
            "platform": platform,
            "peak_hbm_bw_tbs": 4.0,
            "max_achievable_tflops": {"vector_bf16": 120, "matrix_bf16": 600},
            "memory_gb": 96,
            "gpu_utilization": {} if end_to_end_ms is None else {"total_time_ms": end_to_end_ms},
        }
        path = folder / "metadata" / f"{name}_metadata.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(metadata), encoding="utf-8")
    return folder


def write_many(folder: Path, amount: int = 101) -> Path:
    """Write a run of ``amount`` operations, each with its own shape, time and long kernel name."""
    rows = [
        norm_row(
            f"aten::layer_norm_{place}",
            **{
                "Kernel Time (µs)_sum": 2000.0 - place,
                "Input Dims": f"(({place + 1}, 1024), (1024,))",
                "Pct Roofline_mean": float(place % 100),
                "call_stack_full": repr(["nn.Module: Net", f"kernel_{place}_" + "template<float>, " * 20]),
            },
        )
        for place in range(amount)
    ]
    return write_run(folder, {"norm_fwd": rows}, end_to_end_ms=1000.0)


def write_hostile(folder: Path) -> Path:
    """Write a run whose op, kernel, file, module, library and device names all try to break out."""
    rows = [
        norm_row(
            name,
            **{
                "kernel_details_summary": repr([{"name": name}]),
                "call_stack_full": repr(
                    [
                        f"nn.Module: {name}",
                        f"{name}.py(1): forward",
                        f"{name}::op",
                        "lone\ud800.py(2): call",
                        name,
                    ]
                ),
                "entry_point": name,
                "Input type": repr((name, "c10::BFloat16")),
                "Pct Roofline_mean": 250.0 if place == 3 else 20.0,
                "Kernel Time (µs)_std": 500.0 if place == 4 else 1.0,
                "Kernel Time (µs)_sum": 1000.0 + place,
                "Compute Spec": name,
            },
        )
        for place, name in enumerate(HOSTILE_NAMES)
    ]
    heuristic = [row | {"Pct Roofline_mean": "", "Roofline Bound": ""} for row in rows]
    return write_run(
        folder,
        {"norm_fwd": rows, "norm_bwd": heuristic},
        platform="<script>window.pwned=1</script>|`[x](javascript:1)",
    )


def make_pages(run_dir: Path, out_dir: Path, scope: str = "standalone") -> Path:
    """Run the notebook in a kernel and export it, as a report does, and return the folder."""
    from normscope.report.export import export_report
    from normscope.report.run import run_notebook
    from normscope.resources import notebook_path

    out_dir.mkdir(parents=True)
    params = {"run_dir": str(run_dir), "out_dir": str(out_dir), "comparison_scope": scope}
    executed = out_dir / "report.ipynb"
    run_notebook(notebook_path(), executed, params)
    export_report(executed, out_dir)
    return out_dir


def report_of(run_dir: Path, *categories: str, scope: Scope = "standalone", top_n: int = 20) -> Report:
    """Return the report of a run without running the notebook."""
    return Report(
        label=run_dir.name,
        out_dir=run_dir / "out",
        comparison_scope=scope,
        top_n=top_n,
        metrics=tuple(analyze_category(run_dir, category, scope) for category in categories),
    )
