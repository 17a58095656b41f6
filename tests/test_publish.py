"""A report appears whole or not at all, and nothing that isn't a report is ever replaced."""

import os
import random
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from normscope.errors import ExportError, UsageError
from normscope.report.publish import check_target, remove_report, staging, swap_in


def fill(folder: Path, **files: str) -> None:
    """Write ``files`` and a provenance file that lists them, as a report has it."""
    folder.mkdir(parents=True, exist_ok=True)
    records = []
    for stem, text in files.items():
        (folder / f"{stem}.html").write_text(text)
        records.append(f'{{"path": "{stem}.html", "size_bytes": {len(text)}, "sha256": ""}}')
    provenance = f'{{"generator": "normscope", "outputs": [{", ".join(records)}]}}'
    (folder / "provenance.json").write_text(provenance)


def publish(target: Path, **files: str) -> None:
    with staging(target) as stage:
        fill(stage, **files)


def content(folder: Path) -> dict[str, str]:
    return {path.stem: path.read_text() for path in sorted(folder.glob("*.html"))}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_first_report_is_published_and_the_folders_above_are_made(tmp_path: Path) -> None:
    publish(tmp_path / "a" / "b" / "out", report="1")
    assert content(tmp_path / "a" / "b" / "out") == {"report": "1"}
    assert names(tmp_path / "a" / "b") == ["out"]


def test_nothing_is_seen_at_the_place_before_the_report_is_finished(tmp_path: Path) -> None:
    with staging(tmp_path / "out") as stage:
        assert stage.parent == tmp_path
        assert stage.name.startswith(".out.partial-")
        fill(stage, report="1")
        assert not (tmp_path / "out").exists()


def test_a_new_report_replaces_the_old_one_as_a_whole(tmp_path: Path) -> None:
    publish(tmp_path / "out", report="1", gone="x")
    publish(tmp_path / "out", report="2")
    assert content(tmp_path / "out") == {"report": "2"}
    assert names(tmp_path) == ["out"]


def test_an_empty_folder_is_a_place_for_a_report(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    publish(tmp_path / "out", report="1")
    assert content(tmp_path / "out") == {"report": "1"}


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_failure_of_any_kind_leaves_the_last_good_report_and_nothing_else(
    tmp_path: Path, error: type[BaseException]
) -> None:
    publish(tmp_path / "out", report="good")

    def fail() -> None:
        with staging(tmp_path / "out") as stage:
            fill(stage, report="half")
            raise error

    with pytest.raises(error):
        fail()
    assert content(tmp_path / "out") == {"report": "good"}
    assert names(tmp_path) == ["out"]


def test_a_folder_that_holds_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out" / "photos").mkdir(parents=True)
    (tmp_path / "out" / "photos" / "a.png").write_text("mine")
    with pytest.raises(UsageError, match=r"photos/a\.png"):
        publish(tmp_path / "out", report="1")
    assert (tmp_path / "out" / "photos" / "a.png").read_text() == "mine"
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("provenance", ["", "{}", '{"generator": "another"}', "[]", "\x00"])
def test_a_provenance_file_of_another_tool_makes_no_report(tmp_path: Path, provenance: str) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "provenance.json").write_text(provenance)
    with pytest.raises(UsageError, match=r"provenance\.json"):
        check_target(tmp_path / "out")


def test_a_file_that_the_user_put_into_a_report_is_not_deleted_with_it(tmp_path: Path) -> None:
    publish(tmp_path / "out", report="1")
    (tmp_path / "out" / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"notes\.txt"):
        publish(tmp_path / "out", report="2")
    assert (tmp_path / "out" / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("name", [".git/config", ".env", ".ssh/id", "figures/.cache", "x/.DS_Store.txt"])
@pytest.mark.parametrize("is_report", [True, False])
def test_a_hidden_file_of_the_user_is_never_deleted(tmp_path: Path, name: str, is_report: bool) -> None:
    if is_report:
        publish(tmp_path / "out", report="1")
    path = tmp_path / "out" / name
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text("mine")
    with pytest.raises(UsageError, match=re.escape(name)):
        publish(tmp_path / "out", report="2")
    remove_report(tmp_path / "out")
    assert path.read_text() == "mine"


@pytest.mark.parametrize("name", ["empty folder", ".git", ".DS_Store"])
def test_a_folder_that_is_no_report_must_be_truly_empty(tmp_path: Path, name: str) -> None:
    (tmp_path / "out" / name).mkdir(parents=True)
    with pytest.raises(UsageError, match=re.escape(name)):
        publish(tmp_path / "out", report="1")
    assert names(tmp_path / "out") == [name]


def test_a_link_in_a_report_is_the_users(tmp_path: Path) -> None:
    publish(tmp_path / "out", report="1")
    (tmp_path / "data").mkdir()
    (tmp_path / "out" / "link").symlink_to(tmp_path / "data")
    with pytest.raises(UsageError, match="link"):
        publish(tmp_path / "out", report="2")


def test_a_file_that_appears_during_the_run_is_not_deleted(tmp_path: Path) -> None:
    publish(tmp_path / "out", report="1")
    with pytest.raises(UsageError, match=r"late\.txt"), staging(tmp_path / "out") as stage:
        fill(stage, report="2")
        (tmp_path / "out" / "late.txt").write_text("mine")
    assert (tmp_path / "out" / "late.txt").read_text() == "mine"
    assert names(tmp_path) == ["out"]


def test_a_name_that_no_folder_can_have_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="too long"):
        check_target(tmp_path / ("x" * 300))


RESULTS = """{"schema_version": "1.0", "complete": true, "status": "OK", "comparison_scope": "standalone",
"label": "x", "categories": [{"status": "OK", "category": "norm_fwd"}], "errors": []}"""


@pytest.mark.parametrize(
    ("results", "other", "is_ours"),
    [
        (RESULTS, "findings.md", True),
        (RESULTS, "category_data/norm_fwd_metrics.json", True),
        (RESULTS, "category_findings/norm_fwd_findings.md", True),
        (RESULTS, "figures/roofline.svg", True),
        (RESULTS, "figures/mine.svg", False),
        (RESULTS, "category_data/norm_bwd_metrics.json", False),
        (RESULTS, "category_data/norm_fwd_ops.csv", False),
        (RESULTS.replace("true", "false"), "findings.md", False),
        ('{"complete": true}', "findings.md", False),
    ],
)
def test_what_the_notebook_alone_wrote_may_be_replaced_and_no_more(
    tmp_path: Path, results: str, other: str, is_ours: bool
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "metrics.json").write_text(results)
    (tmp_path / "out" / other).parent.mkdir(exist_ok=True)
    (tmp_path / "out" / other).write_text("x")
    if is_ours:
        check_target(tmp_path / "out")
        return
    with pytest.raises(UsageError):
        check_target(tmp_path / "out")


@pytest.mark.parametrize("name", [".DS_Store", ".ipynb_checkpoints/report.ipynb", "figures/.~lock.a.csv#"])
def test_what_desktops_and_jupyter_leave_does_not_stand_in_the_way(tmp_path: Path, name: str) -> None:
    publish(tmp_path / "out", report="1")
    path = tmp_path / "out" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("x")
    publish(tmp_path / "out", report="2")
    assert content(tmp_path / "out") == {"report": "2"}


@pytest.mark.parametrize("kind", ["file", "dangling link"])
def test_a_place_that_is_no_folder_is_refused(tmp_path: Path, kind: str) -> None:
    target = tmp_path / "out"
    if kind == "file":
        target.write_text("mine")
    else:
        target.symlink_to(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="is a file"):
        publish(target, report="1")
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("target", [".", "..", "/"])
def test_the_current_folder_and_those_above_it_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(UsageError, match="current folder"):
        check_target(Path(target))


def test_a_link_to_a_report_stays_a_link(tmp_path: Path) -> None:
    publish(tmp_path / "disk" / "real", report="1")
    (tmp_path / "out").symlink_to(tmp_path / "disk" / "real")
    publish(tmp_path / "out", report="2")
    assert (tmp_path / "out").is_symlink()
    assert content(tmp_path / "disk" / "real") == {"report": "2"}
    assert names(tmp_path / "disk") == ["real"]


def test_a_relative_place_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    publish(Path("outputs/x"), report="1")
    assert content(tmp_path / "outputs" / "x") == {"report": "1"}


@pytest.mark.parametrize("name", ["x" * 200, "日" * 80, "with space", "{brace}", "-x", "a.b.c"])
def test_any_name_works(tmp_path: Path, name: str) -> None:
    publish(tmp_path / name, report="1")
    publish(tmp_path / name, report="2")
    assert content(tmp_path / name) == {"report": "2"}
    assert names(tmp_path) == [name]


def test_a_place_below_a_file_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ExportError, match="can't be written"):
        publish(tmp_path / "file" / "out", report="1")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a file system nobody may write, /proc")
def test_a_place_that_nobody_may_write_is_one_sentence() -> None:
    with pytest.raises(ExportError, match="/proc/normscope/out can't be written"):
        publish(Path("/proc/normscope/out"), report="1")


def test_a_report_can_be_read_by_whom_the_users_mask_allows(tmp_path: Path) -> None:
    mask = os.umask(0o022)
    try:
        publish(tmp_path / "out", report="1")
    finally:
        os.umask(mask)
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o755


def test_when_the_swap_fails_the_old_report_is_put_back(tmp_path: Path) -> None:
    publish(tmp_path / "out", report="good")
    with pytest.raises(ExportError, match="can't be replaced"):
        swap_in(tmp_path / "vanished", tmp_path / "out")
    assert content(tmp_path / "out") == {"report": "good"}
    assert names(tmp_path) == ["out"]


def test_many_runs_at_once_leave_one_whole_report(tmp_path: Path) -> None:
    workers, rounds = 4, 25

    def work(number: int) -> None:
        pick = random.Random(number)
        for turn in range(rounds):
            mark = f"{number}-{turn}"
            with staging(tmp_path / "out") as stage:
                fill(stage, **{f"part{i}": mark for i in range(pick.randrange(2, 6))})

    publish(tmp_path / "out", part0="first")
    with ThreadPoolExecutor(workers) as pool:
        outcomes = [pool.submit(work, number) for number in range(workers)]
    errors = [outcome.exception() for outcome in outcomes]
    assert errors == [None] * workers
    assert len(set(content(tmp_path / "out").values())) == 1, "parts of two reports are mixed"
    assert names(tmp_path) == ["out"]


def test_only_a_report_is_removed(tmp_path: Path) -> None:
    publish(tmp_path / "out", report="1")
    (tmp_path / "mine").mkdir()
    remove_report(tmp_path / "out")
    remove_report(tmp_path / "mine")
    remove_report(tmp_path / "nowhere")
    assert names(tmp_path) == ["mine"]
