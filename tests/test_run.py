"""A run is a success only if every cell ran and the last one said so; nothing is left behind in any case.

All notebooks here run in a real kernel.
"""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from jupyter_client.provisioning.local_provisioner import LocalProvisioner

from normscope import errors
from normscope.errors import InputError, KernelError, NormscopeError, NotebookError, UsageError
from normscope.report.kernel import kernel_ahead
from normscope.report.run import Limits, StepHook, run_notebook
from notebook_zoo import FINISH, printed, read_cells, write_notebook

PROC = Path("/proc")


DEFAULTS = Limits()


def run(
    folder: Path,
    *cells: str,
    limits: Limits = DEFAULTS,
    on_cell: StepHook | None = None,
    finish: str = FINISH,
) -> Path:
    """Run a notebook of ``cells`` in ``folder`` and return the path of the executed one."""
    notebook = write_notebook(folder / "in.ipynb", *cells, finish=finish)
    return run_file(notebook, limits=limits, on_cell=on_cell)


def run_file(notebook: Path, *, limits: Limits = DEFAULTS, on_cell: StepHook | None = None) -> Path:
    folder = notebook.parent
    params = {"run_dir": "r", "out_dir": str(folder), "categories": ["norm_fwd"], "top_n": 3}
    output = folder / "out.ipynb"
    run_notebook(notebook, output, params, limits=limits, on_cell=on_cell)
    return output


def kernels_in(temp_dir: Path) -> list[str]:
    """Return the command lines of the running kernels whose files lie in ``temp_dir``."""
    found = []
    for process in PROC.glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().decode()
        except OSError:
            continue
        if "ipykernel" in command and str(temp_dir) in command:
            found.append(command)
    return found


@pytest.fixture
def temp_dir(tmp_path: Path) -> Iterator[Path]:
    """A temporary folder of the test's own, with a short path, so that it sees what kernels leave there.

    ``tmp_path`` is asked for first, so that it lies elsewhere.
    """
    with tempfile.TemporaryDirectory(prefix="t-") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", folder)
        patch.setenv("TMPDIR", folder)
        yield Path(folder)


@pytest.fixture(autouse=True)
def nothing_is_left(temp_dir: Path) -> Iterator[None]:
    yield
    assert list(temp_dir.iterdir()) == [], "a kernel left files"
    assert kernels_in(temp_dir) == [], "a kernel still runs"


def test_a_notebook_runs_with_its_parameters_and_is_written_with_its_outputs(tmp_path: Path) -> None:
    executed = run(tmp_path, "print(run_dir, categories, top_n, comparison_scope)")
    assert printed(executed) == "r ['norm_fwd'] 3 standalone\n"


def test_each_step_is_announced_with_its_name_number_and_total(tmp_path: Path) -> None:
    steps: list[tuple[str, int, int]] = []
    run(
        tmp_path,
        "# Roofline",
        "x = 1",
        "# papermill_description=Draw_it\nx = 2",
        "",
        on_cell=lambda *step: steps.append(step),
    )
    assert steps == [
        ("Parameters", 1, 5),
        ("Parameters", 2, 5),
        ("Roofline", 3, 5),
        ("Draw it", 4, 5),
        ("Write the results", 5, 5),
    ]


@pytest.mark.parametrize(
    ("cell", "error", "says"),
    [
        ("1/0", NotebookError, "the step 'Roofline' failed: ZeroDivisionError: division by zero"),
        ("raise ValueError('first\\n\\x1b[31mlast\\x1b[0m')", NotebookError, "ValueError: last"),
        ("raise ValueError('x' * 4000)", NotebookError, "ValueError: xxx"),
        ("raise RuntimeError", NotebookError, "failed: RuntimeError"),
        ("x = (", NotebookError, "SyntaxError"),
        ("import sys; sys.exit(0)", NotebookError, "'Roofline' ended the notebook early, by sys.exit(0)"),
        ("import sys; sys.exit(3)", NotebookError, "'Roofline' ended the notebook early, by sys.exit(3)"),
        ("from normscope.errors import *; raise InputError('a.csv is empty')", InputError, "a.csv is empty"),
        ("import os; os.kill(os.getpid(), 9)", KernelError, "died in the step 'Roofline'"),
        ("import os; os._exit(0)", KernelError, "died in the step 'Roofline'"),
    ],
)
def test_a_run_that_ends_early_is_an_error_that_names_the_step_and_the_cause(
    tmp_path: Path, cell: str, error: type[NormscopeError], says: str
) -> None:
    with pytest.raises(NormscopeError) as caught:
        run(tmp_path, "# Roofline", cell)
    assert type(caught.value) is error
    message = str(caught.value)
    assert says in message
    assert message.isprintable()
    assert len(message) < 700
    assert (tmp_path / "out.ipynb").exists(), "what ran is kept"


def test_an_error_that_a_tag_allows_is_still_an_error(tmp_path: Path) -> None:
    notebook = write_notebook(tmp_path / "in.ipynb", "1/0")
    text = notebook.read_text().replace('"tags": []', '"tags": ["raises-exception"]')
    notebook.write_text(text)
    with pytest.raises(NotebookError, match="ZeroDivisionError"):
        run_file(notebook)


def test_sys_exit_after_the_results_were_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NotebookError, match="ended the notebook early"):
        run(tmp_path, finish=f"{FINISH}\nimport sys; sys.exit(0)")


def test_the_kept_notebook_of_a_failure_has_no_raw_html_cells_of_papermill(tmp_path: Path) -> None:
    with pytest.raises(NotebookError):
        run(tmp_path, "1/0")
    kept = read_cells(tmp_path / "out.ipynb")
    assert [cell["cell_type"] for cell in kept] == ["code"] * 4


@pytest.mark.parametrize(
    "finish",
    [
        "pass",
        "import pathlib; pathlib.Path(out_dir, 'metrics.json').write_text('{\"complete\": false}')",
        "import pathlib; pathlib.Path(out_dir, 'metrics.json').write_text('{\"complete\": tr')",
    ],
)
def test_a_run_whose_last_cell_does_not_say_complete_is_an_error(tmp_path: Path, finish: str) -> None:
    with pytest.raises(NotebookError, match=r"metrics\.json"):
        run(tmp_path, finish=finish)


def test_a_complete_mark_from_an_earlier_run_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "metrics.json").write_text('{"complete": true}')
    with pytest.raises(NotebookError, match=r"metrics\.json"):
        run(tmp_path, finish="pass")


def test_a_cell_beyond_its_time_limit_ends_the_run_and_is_named(tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(KernelError, match="the step 'Roofline' took longer than 1 s"):
        run(tmp_path, "# Roofline", "import time; time.sleep(60)", limits=Limits(cell_s=1))
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("limits", [{"cell_s": 0}, {"cell_s": -5}, {"start_s": 0}])
def test_a_time_limit_below_a_second_is_refused(limits: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="1 or more"):
        Limits(**limits)


@pytest.mark.parametrize("count", [0, 2])
def test_a_notebook_without_exactly_one_parameters_cell_is_refused_before_a_kernel_starts(
    tmp_path: Path, count: int
) -> None:
    with pytest.raises(NotebookError, match="tagged `parameters`"):
        run_file(write_notebook(tmp_path / "in.ipynb", parameter_cells=count))
    assert not (tmp_path / "out.ipynb").exists()


@pytest.mark.parametrize("content", [b"", b"{}", b"not json", b"\xff\xfe"])
def test_a_file_that_is_no_notebook_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "in.ipynb").write_bytes(content)
    with pytest.raises(NotebookError, match=r"in\.ipynb"):
        run_file(tmp_path / "in.ipynb")


def test_the_kernel_is_this_python_whatever_kernelspec_is_found_or_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = tmp_path / "jupyter" / "kernels" / "python3"
    spec.mkdir(parents=True)
    (spec / "kernel.json").write_text('{"argv": ["false"], "display_name": "trap", "language": "python"}')
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    monkeypatch.setenv("HOME", str(tmp_path))
    notebook = write_notebook(tmp_path / "in.ipynb", "import sys; print(sys.executable)", kernel="nosuch")
    assert printed(run_file(notebook)) == f"{sys.executable}\n"


def test_nothing_of_the_users_settings_or_folder_reaches_the_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    startup = tmp_path / "ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "00.py").write_text("print('startup file')")
    (tmp_path / "startup.py").write_text("print('PYTHONSTARTUP')")
    (tmp_path / "ipython" / "profile_default" / "ipython_config.py").write_text("c = 1/0")
    (tmp_path / "papermill.py").write_text("raise SystemExit('the current folder is on the path')")
    (tmp_path / "config" / "matplotlib").mkdir(parents=True)
    (tmp_path / "config" / "matplotlib" / "matplotlibrc").write_text("figure.dpi: 7\n")
    for name, value in {
        "IPYTHONDIR": str(tmp_path / "ipython"),
        "PYTHONSTARTUP": str(tmp_path / "startup.py"),
        "PYTHONWARNINGS": "error",
        "MPLBACKEND": "Agg",
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    executed = run(
        tmp_path,
        "import papermill, matplotlib as mpl; print(mpl.get_backend(), mpl.rcParams['figure.dpi'])",
        "import sys; print(hash('a') == hash('a'), sys.warnoptions, '' in sys.path)",
    )
    assert printed(executed).splitlines() == [
        "module://matplotlib_inline.backend_inline 100.0",
        "True [] False",
    ]


def test_hashes_of_text_are_the_same_in_two_runs(tmp_path: Path) -> None:
    first, second = (printed(run(tmp_path, "print(hash('norm_fwd'))")) for _ in range(2))
    assert first == second != ""


def test_a_run_prints_nothing_of_its_own(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run(tmp_path, "import os; os.write(2, b'from the process itself')")
    with pytest.raises(KernelError):
        run(tmp_path, "import os; os.kill(os.getpid(), 9)")
    assert capfd.readouterr() == ("", "")


def test_a_kernel_that_does_not_start_is_tried_twice_and_its_last_words_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ipykernel_launcher.py").write_text(
        f"open({str(tmp_path / 'starts')!r}, 'a').write('x')\nraise ImportError('no such part')"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(KernelError, match=r"didn't start .*ImportError: no such part.*doctor"):
        run(tmp_path)
    assert capfd.readouterr() == ("", "")
    assert (tmp_path / "starts").read_text() == "xx"
    assert not (tmp_path / "out.ipynb").exists()


def test_a_kernel_that_starts_at_the_second_try_is_good_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        textwrap.dedent(f"""
        import pathlib, os
        tried = pathlib.Path({str(tmp_path / "tried")!r})
        if not tried.exists():
            tried.touch()
            os._exit(1)
        """)
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    run(tmp_path)
    assert (tmp_path / "tried").exists()


def test_a_kernel_started_ahead_has_imported_its_modules_before_the_first_cell(tmp_path: Path) -> None:
    notebook = write_notebook(tmp_path / "in.ipynb", "import sys; print('colorsys' in sys.modules)")
    with kernel_ahead(["colorsys"]) as kernel:
        run_notebook(notebook, tmp_path / "out.ipynb", {"out_dir": str(tmp_path)}, kernel=kernel)
    assert printed(tmp_path / "out.ipynb") == "True\n"


def test_a_kernel_started_ahead_that_died_is_replaced(tmp_path: Path) -> None:
    notebook = write_notebook(tmp_path / "in.ipynb", "import os; print(os.getpid())")
    with kernel_ahead([]) as kernel:
        assert kernel
        assert isinstance(kernel.manager.provisioner, LocalProvisioner)
        pid = kernel.manager.provisioner.pid
        assert pid
        os.kill(pid, signal.SIGKILL)
        run_notebook(notebook, tmp_path / "out.ipynb", {"out_dir": str(tmp_path)}, kernel=kernel)
    assert int(printed(tmp_path / "out.ipynb")) != pid


def test_where_no_kernel_can_be_started_ahead_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    with kernel_ahead([]) as kernel:
        assert kernel is None


CONNECTION = "import ipykernel, json; c = json.loads(ipykernel.get_connection_info()); print(c[KEY])"


def test_without_unix_sockets_the_kernel_runs_over_tcp_and_without_a_warning(
    tmp_path: Path, temp_dir: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    too_long_for_a_socket = temp_dir / ("long" * 30)
    too_long_for_a_socket.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(too_long_for_a_socket))
        assert printed(run(tmp_path, CONNECTION.replace("KEY", "'transport'"))) == "tcp\n"
    assert capfd.readouterr() == ("", "")
    too_long_for_a_socket.rmdir()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no Unix sockets")
def test_the_usual_transport_is_sockets_in_a_folder_that_only_the_user_may_enter(
    tmp_path: Path, temp_dir: Path
) -> None:
    address = CONNECTION.replace("c[KEY]", "c['transport'], c['ip']")
    mode = "import os; print(oct(os.stat(os.path.dirname(c['ip'])).st_mode & 0o777))"
    transport, folder, bits = printed(run(tmp_path, address, mode)).split()
    assert transport == "ipc"
    assert folder.startswith(str(temp_dir))
    assert bits == "0o700"


def test_a_run_works_where_an_event_loop_is_running_as_in_jupyter(tmp_path: Path) -> None:
    async def main() -> Path:
        return run(tmp_path, "print(1)")  # blocks, as a call in a cell does

    assert printed(asyncio.run(main())) == "1\n"


def test_runs_side_by_side_do_not_disturb_each_other(tmp_path: Path) -> None:
    def one(number: int) -> str:
        folder = tmp_path / str(number)
        folder.mkdir()
        return printed(run(folder, f"import time; time.sleep(0.3); print({number})"))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(one, range(4))) == ["0\n", "1\n", "2\n", "3\n"]


def test_any_folder_name_works(tmp_path: Path) -> None:
    folder = tmp_path / "with space" / "{braces} {" / "ünï-日本" / "%s $HOME 'q' \"d\""
    folder.mkdir(parents=True)
    assert printed(run(folder, "print(out_dir)")) == f"{folder}\n"


def test_every_error_class_has_the_exit_code_that_its_documentation_says() -> None:
    documented = {"NotebookError": 5, "KernelError": 6, "InputError": 3, "UsageError": 2, "ExportError": 7}
    assert {name: getattr(errors, name).exit_code for name in documented} == documented


PROGRAM = """
import sys
from pathlib import Path
from normscope.report.run import run_notebook
from normscope.report.signals import ended_by_exception
folder = Path(sys.argv[1])
with ended_by_exception():
    run_notebook(folder / "in.ipynb", folder / "out.ipynb", {"out_dir": str(folder)})
"""


def start_program(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM, str(folder)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def press_ctrl_c(process: "subprocess.Popen[str]") -> None:
    """Interrupt like a person: again after five seconds, where Python swallowed the first exception."""
    for _ in range(10):
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=5)
            return
    pytest.fail("the run goes on")


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return "Z" in (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.skipif(not PROC.is_dir(), reason="needs /proc to look for processes")
@pytest.mark.parametrize(
    ("number", "status"),
    [
        (signal.SIGINT, -signal.SIGINT),
        (signal.SIGTERM, 143),
        (signal.SIGHUP, 129),
    ],
)
def test_a_signal_ends_the_run_and_leaves_no_process_and_no_file(
    tmp_path: Path, temp_dir: Path, number: signal.Signals, status: int
) -> None:
    write_notebook(
        tmp_path / "in.ipynb",
        """
        import os, pathlib, subprocess, time
        child = subprocess.Popen(["sleep", "600"])
        pathlib.Path(out_dir, "pids").write_text(f"{os.getpid()} {child.pid} .")
        while True:
            try:
                time.sleep(600)
            except KeyboardInterrupt:
                pass  # a cell that doesn't let itself be stopped
        """,
    )
    process = start_program(tmp_path)
    pids = tmp_path / "pids"
    wait_until(lambda: pids.exists() and pids.read_text().endswith("."))
    process.send_signal(number)
    process.send_signal(number)  # an impatient second one doesn't cut the cleaning short
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == status
    assert "Task" not in stderr
    for pid in map(int, pids.read_text().split()[:2]):
        wait_until(partial(is_gone, pid))
    assert list(temp_dir.iterdir()) == []


@pytest.mark.skipif(not PROC.is_dir(), reason="needs /proc to look for processes")
@pytest.mark.parametrize("delay_s", [0.5, 1.0, 1.5])
def test_ctrl_c_at_any_moment_of_the_start_leaves_nothing(
    tmp_path: Path, temp_dir: Path, delay_s: float
) -> None:
    write_notebook(tmp_path / "in.ipynb", "import time; time.sleep(60)")
    process = start_program(tmp_path)
    time.sleep(delay_s)
    press_ctrl_c(process)
    assert process.returncode == -signal.SIGINT
    wait_until(lambda: not kernels_in(temp_dir))
    assert list(temp_dir.iterdir()) == []
