"""What tests share: one thread, interpreted kernels where there is no GPU, and a browser for pages."""

import os
import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

GPU = torch.cuda.is_available()
if not GPU:
    os.environ["TRITON_INTERPRET"] = "1"  # before anything imports Triton

SLOWEST = (
    "test_resume",
    "test_sweep",
    "test_panda",
    "test_folder_safety",
    "test_atari",
    "test_run",
    "test_parallel",
    "test_store",
    "test_cache",
    "test_page",
    "test_trained_learners",
    "test_continualworld",
    "test_docs",
)
BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome", "chrome")
QUIETLY = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")
ON_GPU = pytest.param("cuda", marks=pytest.mark.skipif(not GPU, reason="there is no GPU on this machine"))
INTERPRETED = pytest.mark.skipif(GPU, reason="where there is a GPU, Triton compiles our kernels for it")


def pytest_xdist_auto_num_workers() -> int:
    """One worker more than cores, since tests of other processes mostly wait; at most 4, since each needs a GiB."""
    return min((os.cpu_count() or 1) + 1, 4)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the slowest files first, so that no worker is left alone with one at the end."""
    items.sort(key=lambda item: SLOWEST.index(item.path.stem) if item.path.stem in SLOWEST else len(SLOWEST))


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _usual_signals() -> None:
    """Signals do what they usually do: a shell ignores interrupts of what it runs in the background, and Ray ends."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


@pytest.fixture
def own_plugins() -> Iterator[None]:
    """Plugins that a test loads are gone after it."""
    from holdfast.registry import PLUGINS, REGISTRIES

    plugins, before = list(PLUGINS), [(dict(registry.added), dict(registry.owners)) for registry in REGISTRIES]
    yield
    for registry, (added, owners) in zip(REGISTRIES, before, strict=True):
        registry.added, registry.owners = added, owners
    PLUGINS[:] = plugins


@pytest.fixture(scope="module")
def own_datasets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Datasets of a module's tests, not the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINARI_DATASETS_PATH", str(tmp_path_factory.mktemp("minari")))
        yield


@dataclass
class Watched:
    """A page in a browser, and all that it said, asked for or tried."""

    view: Any
    told: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def open(self, place: Path | str) -> "Watched":
        self.view.on("console", lambda message: self.told.append(message.text))
        self.view.on("pageerror", lambda problem: self.told.append(str(problem)))
        self.view.on("dialog", lambda dialog: self.told.append(dialog.message))
        self.view.on("request", lambda request: self.asked.append(request.url))
        self.view.goto(place.as_uri() if isinstance(place, Path) else place)
        return self


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A real browser; where there is none the test is skipped, unless one is required."""
    required = os.environ.get("HOLDFAST_BROWSER") == "required"
    binary = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if binary is None and not required:
        pytest.skip(
            "there is no Chromium here: apt-get install chromium-headless-shell, or set HOLDFAST_BROWSER=required"
        )
    assert binary, f"HOLDFAST_BROWSER=required, but there is none of {', '.join(BROWSERS)}"
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=binary, args=list(QUIETLY))
        yield browser
        browser.close()


@pytest.fixture
def watch(chromium: Any) -> Iterator[Any]:
    """Opens pages in new windows, which are closed in the end."""
    contexts = []

    def opened(place: Path | str, **settings: Any) -> Watched:
        contexts.append(chromium.new_context(**{"viewport": {"width": 1280, "height": 900}, **settings}))
        return Watched(contexts[-1].new_page()).open(place)

    yield opened
    for context in contexts:
        context.close()


@pytest.fixture(params=["cpu", ON_GPU])
def device(request: pytest.FixtureRequest) -> str:
    """A device that networks train and act on."""
    return request.param


@pytest.fixture(params=[pytest.param("cpu", marks=INTERPRETED), ON_GPU])
def kernel_device(request: pytest.FixtureRequest) -> str:
    """Where our kernels run: on the GPU, or on the processor by Triton's interpreter."""
    return request.param


@pytest.fixture(params=[ON_GPU])
def gpu(request: pytest.FixtureRequest) -> str:
    """The GPU."""
    return request.param
