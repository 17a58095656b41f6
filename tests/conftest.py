"""What all tests share: where the reference data lies, the browser, and PyTorch.

A checkout without the reference data, or a machine without a browser or PyTorch, skips the tests that need
them and says so. With ``NORMSCOPE_REQUIRE_ALL=1``, as continuous integration sets it, those tests fail
instead.
"""

import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest
from hypothesis import HealthCheck, settings
from playwright.sync_api import Browser, sync_playwright

if TYPE_CHECKING:
    from eager_norms import EagerProfile

# A busy machine is no reason to fail: how fast something is belongs in the benchmarks.
settings.register_profile("normscope", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("normscope")

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"
BROWSER_NAMES = ("chromium", "chromium-browser", "google-chrome")
BROWSER_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def skip_or_fail(reason: str) -> NoReturn:
    """Skip the test with ``reason``, or fail it where every test must run."""
    if os.environ.get("NORMSCOPE_REQUIRE_ALL"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of reference data beside the checkout."""
    if not SHARED.is_dir():
        skip_or_fail("the reference data folder is not beside the checkout")
    return SHARED


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A headless Chromium, the one that is installed on this machine."""
    executable = next(filter(None, map(shutil.which, BROWSER_NAMES)), None)
    if executable is None:
        skip_or_fail("no Chromium is installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=list(BROWSER_FLAGS))
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def torch_installed() -> None:
    """PyTorch, which tests import where they use it: that takes seconds."""
    if find_spec("torch") is None:
        skip_or_fail("PyTorch is not installed")


@pytest.fixture(scope="session")
def eager_profiles(torch_installed: None) -> "dict[str, EagerProfile]":
    """Profiles of hand-written norms and of decoys, by the names of `eager_norms.record_eager`."""
    from eager_norms import record_eager

    return record_eager()
