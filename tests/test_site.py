"""The site holds every page and every public name, its links lead somewhere, and it needs no other host."""

import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from html import unescape
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from runpy import run_path
from threading import Thread
from typing import Any
from urllib.parse import unquote

import pytest

import holdfast
from tests.test_docs import NAMES, PAGES, ROOT, without_blocks
from tests.test_page import Outline

FORMULA = re.compile(r'class="arithmatex">(.*?)</(?:span|div)>', re.DOTALL)
OUTSIDE = ("http:", "https:", "//")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; in strict mode a warning is an error."""
    place = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(place)]
    result = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return place


@pytest.fixture(scope="module")
def outlines(site: Path) -> dict[Path, Outline]:
    """Every page of the site."""
    return {path: Outline(path) for path in site.rglob("*.html")}


class Quiet(SimpleHTTPRequestHandler):
    """A plain server of files."""

    def log_message(self, format: str, *values: Any) -> None: ...


@pytest.fixture(params=["file system", "server"])
def address(request: pytest.FixtureRequest, site: Path) -> Iterator[str]:
    """Where the site is opened."""
    if request.param == "file system":
        yield site.as_uri()
        return
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def place(page: Path) -> str:
    """Where a page of the repository is in the site."""
    if page.is_relative_to(ROOT / "docs"):
        return str(page.relative_to(ROOT / "docs").with_suffix(".html"))
    return {"README": "overview", "CONTRIBUTING": "contributing", "CHANGELOG": "changelog"}[page.stem] + ".html"


def test_every_page_of_the_repository_s_documentation_is_in_the_sidebar(
    site: Path, outlines: dict[Path, Outline]
) -> None:
    sidebar = {found.get("href") for found in outlines[site / "index.html"].all("a") if "md-nav__link" in str(found)}
    assert len(PAGES) > 20
    assert {place(page) for page in PAGES} <= sidebar


def test_every_public_name_is_in_the_reference(site: Path, outlines: dict[Path, Outline]) -> None:
    index = outlines[site / "reference" / "index.html"]
    assert set(holdfast.__all__) <= {word.strip() for word in index.words}
    for name in holdfast.__all__:
        thing = getattr(holdfast, name)
        if callable(thing):
            page = site / "reference" / (f"{name}.html" if isinstance(thing, type) else "functions.html")
            assert any(
                found.get("id") == f"{thing.__module__}.{thing.__qualname__}" for _, found in outlines[page].elements
            )


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_item_of_a_list_is_one_on_the_site(page: Path, site: Path, outlines: dict[Path, Outline]) -> None:
    items = re.findall(r"^ *(?:-|\d+\.) ", without_blocks(page), re.MULTILINE)
    shown = outlines[site / place(page)].all("li")
    assert len([found for found in shown if "class" not in found]) == len(items)  # those of the sidebar have one


def test_every_link_inside_the_site_leads_to_a_file_and_a_heading(outlines: dict[Path, Outline]) -> None:
    ids = {path: {found.get("id") for _, found in outline.elements} for path, outline in outlines.items()}
    for path, outline in outlines.items():
        if path.name == "404.html":  # its links are from the root of a server
            continue
        for found in outline.all("a"):
            place, _, heading = unquote(found.get("href") or "").partition("#")
            if not place.startswith(OUTSIDE):
                target = (path.parent / place).resolve() if place else path
                assert target.exists(), f"{path.name} links to {place}"
                assert heading in ("", "__skip", *ids.get(target, ())), f"{path.name} links to {place}#{heading}"


def test_no_script_style_font_or_image_is_on_another_host(site: Path, outlines: dict[Path, Outline]) -> None:
    for path, outline in outlines.items():
        loaded = [found for tag, found in outline.elements if tag != "a"]
        places = [found[name] for found in loaded for name in ("src", "href", "srcset", "data") if found.get(name)]
        assert places
        assert not [place for place in places if str(place).startswith(OUTSIDE)], path
    for style in site.rglob("*.css"):
        places = re.findall(r"url\(['\"]?([^)'\"]+)|@import\s+['\"]([^'\"]+)", style.read_text(encoding="utf-8"))
        assert not [place for pair in places for place in pair if place.startswith(OUTSIDE)], style


def test_a_link_to_a_file_that_is_no_page_is_its_path_until_the_repository_has_an_address() -> None:
    to_file = run_path(str(ROOT / "docs" / "hooks.py"))["to_file"]
    assert to_file("tests", "tests/test_docs.py", "") == "tests (`tests/test_docs.py`)"
    assert to_file("`nets/net.py`", "src/nets/net.py", "") == "`src/nets/net.py`"
    assert (
        to_file("tests", "tests/test_docs.py", "https://host/blob/main")
        == "[tests](https://host/blob/main/tests/test_docs.py)"
    )


def test_formulas_diagrams_and_search_work_without_another_host(address: str, watch: Any) -> None:
    seen = watch(f"{address}/concepts.html")
    seen.view.wait_for_selector("div.mermaid")  # a drawn diagram; its text is in a pre
    assert seen.view.locator("pre.mermaid").count() == 0
    assert all(seen.view.evaluate("[...document.querySelectorAll('.mermaid')].map(found => found.clientHeight > 30)"))
    assert seen.view.locator(".arithmatex").count() == seen.view.locator(".arithmatex > .katex").count() > 10
    assert seen.view.locator(".katex-error").count() == 0
    seen.view.locator(".md-search__input").click()
    seen.view.keyboard.type("kaiming")  # no hyphen: a query that ends with one, as while it is typed, is an error
    seen.view.wait_for_selector(".md-search-result__link[href*='subnetworks.html']")
    assert seen.told == []
    assert [url for url in seen.asked if not url.startswith((address, "data:", "about:", "blob:"))] == []


def test_katex_knows_every_formula_of_every_page(site: Path, watch: Any) -> None:
    pages = [path.read_text(encoding="utf-8") for path in site.rglob("*.html")]
    formulas = [unescape(text).strip()[2:-2] for page in pages for text in FORMULA.findall(page)]
    assert len(formulas) > 50
    seen = watch(site / "concepts.html")
    drawn = seen.view.evaluate("formulas => formulas.map(text => katex.renderToString(text))", formulas)
    assert len(drawn) == len(formulas)
