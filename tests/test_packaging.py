"""What is declared about the package agrees, and the built wheel works on its own."""

import os
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

import normscope

ROOT = Path(__file__).resolve().parent.parent
CONDA_NAMES = {
    "matplotlib": "matplotlib-base",
    "nbconvert": "nbconvert-core",
    "jupyter-client": "jupyter_client",
    "isal": "python-isal",
}
"""The packages that conda-forge calls otherwise, or offers in a smaller cut."""


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project


@pytest.fixture(scope="module")
def environment() -> dict[str, Any]:
    environment: dict[str, Any] = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    return environment


def conda_packages(environment: dict[str, Any]) -> dict[str, str]:
    """The conda packages of an environment, each with its version bound."""
    requirements = [Requirement(entry) for entry in environment["dependencies"] if isinstance(entry, str)]
    return {requirement.name: str(requirement.specifier) for requirement in requirements}


def test_environment_asks_for_the_run_dependencies_with_the_same_bounds(
    project: dict[str, Any], environment: dict[str, Any]
) -> None:
    requirements = [Requirement(entry) for entry in project["dependencies"]]
    expected = {CONDA_NAMES.get(r.name, r.name): str(r.specifier) for r in requirements}
    assert conda_packages(environment) == expected | {"python": project["requires-python"], "pip": ""}


def test_every_run_dependency_has_a_lower_bound_and_no_upper_one(project: dict[str, Any]) -> None:
    for requirement in map(Requirement, project["dependencies"]):
        assert [specifier.operator for specifier in requirement.specifier] == [">="]


def test_environment_installs_the_package_itself_last(environment: dict[str, Any]) -> None:
    assert environment["channels"] == ["conda-forge", "nodefaults"]
    assert environment["dependencies"][-2:] == ["pip", {"pip": ["-e ."]}]


def test_the_package_says_the_version_that_is_declared(project: dict[str, Any]) -> None:
    assert normscope.__version__ == project["version"]


def test_the_changelog_has_a_section_for_the_declared_version(project: dict[str, Any]) -> None:
    assert f"## [{project['version']}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built by way of the source distribution, so that neither lacks a file."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def python_with_wheel(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that holds the wheel; the dependencies are lent by the one that runs the tests.

    They are found by a ``.pth`` file, which comes after the environment's own packages and does not bring
    along an editable install, and by a link to the templates that nbconvert installs beside its code.
    """
    folder = tmp_path_factory.mktemp("environment") / "venv"
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    install = ["install", "--quiet", "--no-deps", "--no-index", "--disable-pip-version-check", str(wheel)]
    subprocess.run([sys.executable, "-m", "pip", "--python", str(python), *install], check=True)
    (site_packages,) = folder.glob("lib/python*/site-packages")
    lenders = [p for p in sys.path if Path(p).name == "site-packages"]
    (site_packages / "dependencies.pth").write_text("\n".join(lenders) + "\n", encoding="utf-8")
    (folder / "share" / "jupyter").mkdir(parents=True)
    templates = Path("share", "jupyter", "nbconvert")
    (folder / templates).symlink_to(Path(sys.prefix) / templates)
    return python


def test_the_wheel_carries_the_notebook_the_template_and_the_schemas(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "normscope/notebooks/norm_report.ipynb" in names
    assert "normscope/py.typed" in names
    assert any(name.startswith("normscope/report/template/") and name.endswith(".html.j2") for name in names)
    assert "normscope/schemas/metrics.schema.json" in names
    assert "normscope/schemas/provenance.schema.json" in names
    assert "normscope/schemas/results.schema.json" in names
    assert "normscope/sample/workload.py" in names
    assert any(name.endswith("/licenses/LICENSE") for name in names)


def test_the_wheel_holds_nothing_but_the_package(wheel: Path) -> None:
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert tops == {"normscope", f"normscope-{normscope.__version__}.dist-info"}


def test_an_installed_wheel_makes_a_report_outside_the_checkout(
    python_with_wheel: Path, tmp_path: Path
) -> None:
    environment = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "VIRTUAL_ENV"}}

    def run(*command: str) -> str:
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    location = run(str(python_with_wheel), "-c", "import normscope; print(normscope.__file__)")
    assert Path(location.strip()).is_relative_to(python_with_wheel.parent.parent)

    printed = run(str(python_with_wheel.parent / "normscope"), "report", "sample", "--out", "result")
    assert (tmp_path / "result" / "report.html").is_file()
    assert Path(printed.splitlines()[-1]).name == "report.html"
