"""`normscope baseline` and `normscope check`, as a build runs them."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

import pytest

from conftest import ROOT
from normscope import write_sample
from normscope.errors import BreachError, UsageError
from runs import row, write_run
from test_cli import NOT_LOADED, acme_trace, is_one_sentence, run
from test_schemas import strict_json, validator

TOTAL = "[total]\nmax_increase_percent = {}\n"


def limits_file(folder: Path, text: str) -> Path:
    path = folder / "limits.toml"
    path.write_text(text, encoding="utf-8")
    return path


def ops_run(folder: Path, times_us: Mapping[str, float]) -> Path:
    """Write a TraceLens run directory with ops of these times, each with a shape of its own."""
    rows = [
        row(name, time_us, cells={"Input Dims": f"(({place + 1}024, 64), (64,))"})
        for place, (name, time_us) in enumerate(times_us.items())
    ]
    return write_run(folder, rows)


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sample as a trace, and its baseline."""
    folder = tmp_path_factory.mktemp("gate")
    write_sample(folder / "sample.json.gz")
    done = run("baseline", "sample.json.gz", "norms.json", cwd=folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "norms.json\n", "")
    return folder


def test_a_baseline_fits_its_schema_and_is_the_same_again(traces: Path, tmp_path: Path) -> None:
    data = (traces / "norms.json").read_bytes()
    validator("baseline").validate(strict_json(data))
    assert run("baseline", traces / "sample.json.gz", tmp_path / "again.json", cwd=tmp_path).returncode == 0
    assert run("baseline", traces / "norms.json", tmp_path / "copy.json", cwd=tmp_path).returncode == 0
    assert (tmp_path / "again.json").read_bytes() == data
    assert (tmp_path / "copy.json").read_bytes() == data


def test_a_baseline_holds_all_norm_time_of_its_trace(traces: Path, tmp_path: Path) -> None:
    done = run("coverage", traces / "sample.json.gz", "--json", cwd=tmp_path)
    covered = json.loads(done.stdout)
    own = ("explicit", "eager_decomposed", "unlinked", "helper_copies")
    norms = [covered[name]["us"] for name in own]
    norms += [each["us"] for each in covered["compiled_fused"]]
    groups = json.loads((traces / "norms.json").read_text())["groups"]
    assert sum(each["total_us"] for each in groups) == pytest.approx(sum(norms), rel=1e-8)


def test_a_result_against_itself_is_within_the_strictest_limits(traces: Path, tmp_path: Path) -> None:
    limits = limits_file(
        tmp_path,
        f"{TOTAL.format(0)}[variant.LayerNorm]\nmax_increase_ms = 0\n"
        "[[operation]]\nname = '*'\nmax_increase_percent = 0\n"
        "[coverage]\nallow_vanished = false\nmax_unattributed_increase_percent = 0\n",
    )
    for result in ("sample.json.gz", "norms.json"):
        for baseline in ("sample.json.gz", "norms.json"):
            words = ("check", traces / result, "--baseline", traces / baseline, "--limits", limits)
            done = run(*words, cwd=tmp_path)
            assert (done.returncode, done.stderr) == (0, ""), done.stdout
            assert "breached" not in done.stdout.replace("0 breached", "")
            assert done.stdout.splitlines()[-1].startswith("Within the limits: 0 breached, ")
    assert [path.name for path in tmp_path.iterdir()] == ["limits.toml"]


def test_a_breach_exits_10_and_every_file_says_so(tmp_path: Path) -> None:
    ops_run(tmp_path / "old", {"aten::layer_norm": 1000.0, "aten::group_norm": 500.0})
    ops_run(tmp_path / "new", {"aten::layer_norm": 1300.0, "aten::group_norm": 500.0})
    limits_file(tmp_path, f"{TOTAL.format(15)}[[operation]]\nname = '*layer_norm'\nmax_time_ms = 2\n")
    assert run("baseline", "old", "norms.json", cwd=tmp_path).returncode == 0
    done = run(
        *("check", "new", "--baseline", "norms.json", "--limits", "limits.toml"),
        *("--json", "out/v.json", "--junit", "out/j.xml", "--markdown", "out/s.md"),
        cwd=tmp_path,
    )
    assert done.returncode == BreachError.exit_code == 10
    assert is_one_sentence(done.stderr)
    assert "1 of " in done.stderr
    # 1.8 ms after 1.5 ms
    assert done.stdout.splitlines()[-1].endswith("Norms take 1.8 ms, in the baseline 1.5 ms (+20.0 %).")
    verdict = strict_json((tmp_path / "out/v.json").read_bytes())
    validator("verdict").validate(verdict)
    assert verdict["outcome"] == "breached"
    breached = [check for check in verdict["checks"] if check["outcome"] == "breached"]
    assert [(check["key"], check["value"]) for check in breached] == [
        ("max_increase_percent", pytest.approx(20.0))
    ]
    suites = ElementTree.parse(tmp_path / "out/j.xml").getroot()
    assert suites.attrib["failures"] == "1"
    assert (tmp_path / "out/s.md").read_text().startswith("### Normalization: 1 of ")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["j.xml", "s.md", "v.json"]


def test_files_are_written_where_all_is_well_too(tmp_path: Path) -> None:
    ops_run(tmp_path / "run", {"aten::layer_norm": 1000.0})
    limits_file(tmp_path, TOTAL.format(0))
    done = run(
        *("check", "run", "--baseline", "run", "--limits", "limits.toml", "--markdown", "s.md"), cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "s.md").read_text().startswith("### Normalization: within the limits")


def test_another_gpu_is_refused_unless_allowed(shared: Path, tmp_path: Path) -> None:
    """As the README says, on real traces of two GPUs. The times are the reference's."""
    names = ("owlv2_mi300x", "owlv2_h100")
    mine, other = (shared / "traces" / f"{name}.json.gz" for name in names)
    assert run("baseline", other, "norms.json", cwd=tmp_path).returncode == 0
    limits_file(tmp_path, TOTAL.format(30))
    words = ("check", mine, "--baseline", "norms.json", "--limits", "limits.toml", "--json", "v.json")
    done = run(*words, cwd=tmp_path)
    assert done.returncode == UsageError.exit_code
    assert is_one_sentence(done.stderr)
    assert "NVIDIA H100" in done.stderr
    assert "MI300X" in done.stderr
    assert "--allow-other-gpu" in done.stderr
    assert not (tmp_path / "v.json").exists()
    done = run(*words, "--allow-other-gpu", cwd=tmp_path)
    assert done.returncode == BreachError.exit_code, done.stderr
    found = json.loads((tmp_path / "v.json").read_text())
    expected = [
        json.loads((shared / "traces/expected" / f"{n}.json").read_text())["norm_rows"] for n in names
    ]
    times_ms = [sum(each["kernel_time_us_sum"] for each in rows) / 1e3 for rows in expected]
    assert (found["time_ms"], found["baseline_time_ms"]) == tuple(pytest.approx(each) for each in times_ms)
    assert "The baseline is of another GPU than the result." in done.stdout


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        (["check", "run"], 2, "--baseline"),
        (["check", "run", "--baseline", "run"], 2, "--limits"),
        (["check", "run", "--baseline", "run", "--limits", "none.toml"], 3, "none.toml can't be read"),
        (["check", "run", "--baseline", "run", "--limits", "bad.toml"], 3, "'max_tim_ms' in [total]"),
        (["check", "nowhere", "--baseline", "run", "--limits", "limits.toml"], 3, "nowhere"),
        (["check", "run", "--baseline", "nowhere.json", "--limits", "limits.toml"], 3, "nowhere.json"),
        (["check", "run", "--baseline", "future.json", "--limits", "limits.toml"], 3, "version 9.0"),
        (["check", "-", "--baseline", "-", "--limits", "limits.toml"], 2, "standard input"),
        (["check", "run", "--baseline", "run", "--limits", "limits.toml", "--gpu", "h100_sxm"], 2, "--gpu"),
        (["check", "run", "--baseline", "run", "--limits", "limits.toml", "--json", "run"], 7, "run"),
        (["check", "acme.json", "--baseline", "run", "--limits", "limits.toml"], 4, "no normalization"),
        (["baseline", "run"], 2, "FILE"),
        (["baseline", "nowhere", "x.json"], 3, "nowhere"),
        (["baseline", "run", "limits.toml/x.json"], 7, "can't be written"),
        (["baseline", "acme.json", "x.json"], 4, "no normalization"),
        (["baseline", "run", "x.json", "--catalog", "c.toml"], 2, "--catalog"),
    ],
)
def test_a_mistake_gets_one_sentence_and_its_exit_code(
    words: list[str], code: int, part: str, tmp_path: Path
) -> None:
    ops_run(tmp_path / "run", {"aten::layer_norm": 1000.0})
    limits_file(tmp_path, TOTAL.format(0))
    acme_trace(tmp_path)
    (tmp_path / "bad.toml").write_text("[total]\nmax_tim_ms = 1")
    (tmp_path / "future.json").write_text('{"schema_version": "9.0", "label": "x", "groups": []}')
    before = sorted(tmp_path.iterdir())
    done = run(*words, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert part in done.stderr
    assert is_one_sentence(done.stderr)
    assert sorted(tmp_path.iterdir()) == before


def test_names_of_the_input_reach_the_terminal_printable(tmp_path: Path) -> None:
    ops_run(tmp_path / "old", {"aten::layer_norm": 1000.0})
    ops_run(tmp_path / "new", {"layer_norm\x1b[31m <b>": 1300.0})
    limits_file(tmp_path, "[[operation]]\nname = '*'\nmax_increase_percent = 10")
    done = run("check", "new", "--baseline", "old", "--limits", "limits.toml", cwd=tmp_path)
    assert done.returncode == BreachError.exit_code, done.stderr
    assert "\x1b" not in done.stdout
    assert "\\x1b[31m" in done.stdout


def test_a_result_on_standard_input_is_checked(traces: Path, tmp_path: Path) -> None:
    limits = limits_file(tmp_path, TOTAL.format(0))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "normscope", "check", "-"),
            *("--baseline", str(traces / "norms.json"), "--limits", str(limits)),
        ],
        input=(traces / "sample.json.gz").read_bytes(),
        cwd=tmp_path,
        env=os.environ,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("result", ["norms.json", "sample.json.gz"])
def test_a_check_imports_nothing_heavy(result: str, traces: Path, tmp_path: Path) -> None:
    limits = limits_file(tmp_path, TOTAL.format(0))
    words = ["check", str(traces / result), "--baseline", str(traces / "norms.json"), "--limits", str(limits)]
    done = subprocess.run(
        [sys.executable, "-c", NOT_LOADED, *words, "--json", str(tmp_path / "v.json")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert (tmp_path / "v.json").is_file()
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_lines_of_the_readme_work(traces: Path, tmp_path: Path) -> None:
    """The commands of the README, word for word, with the sample as both traces."""
    text = (ROOT / "README.md").read_text("utf-8")
    lines = [line.strip().removeprefix("- run: ") for line in text.splitlines()]
    commands = [
        line.split("  ")[0] for line in lines if line.startswith(("normscope baseline", "normscope check"))
    ]
    assert len(commands) == 2
    (tmp_path / "parameters").mkdir()
    (tmp_path / "limits.toml").write_bytes((ROOT / "parameters" / "limits.toml").read_bytes())
    for name in ("good.json.gz", "new.json.gz"):
        (tmp_path / name).write_bytes((traces / "sample.json.gz").read_bytes())
    for command in commands:
        done = run(*command.split()[1:], cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "summary.md").read_text().startswith("### Normalization: within the limits")


def test_the_exit_codes_are_listed_where_users_look(tmp_path: Path) -> None:
    assert "| 10 | `normscope check`: a limit is breached |" in (ROOT / "README.md").read_text("utf-8")
    assert "· 10 breach" in run("--help", cwd=tmp_path, COLUMNS="300").stdout
