"""What MkDocs needs to make a site of the repository: pages outside docs/, the reference, links between them."""

import re
from collections.abc import Mapping
from fnmatch import fnmatch
from inspect import getdoc, isclass, isfunction
from pathlib import Path
from posixpath import dirname, join, normpath, relpath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import holdfast

PAGES = {"README.md": "overview.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
SOURCES = {page: source for source, page in PAGES.items()}
FENCED = r"^```.*?^```$"  # what looks like a link or a list in code is none
LINK = re.compile(
    FENCED + r"|`[^`\n]*`|\[(?P<text>[^\]]*)\]\((?P<path>[^)\s#]+)(?P<heading>#[^)\s]*)?\)",
    re.MULTILINE | re.DOTALL,
)
LIST = re.compile(FENCED + r"|(?P<before>^[^\s-][^\n]*\n)(?=- )", re.MULTILINE | re.DOTALL)  # right after a paragraph

INDEX = """
# Reference

These names are imported from the package itself: `from holdfast import Suite`.

## Functions

{functions}

## Classes

{classes}

## Registries

{registries}
"""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages at the root of the repository and those of the reference."""
    root = Path(config.config_file_path).parent
    for source, page in PAGES.items():
        files.append(File.generated(config, page, abs_src_path=str(root / source)))
    for page, text in reference().items():
        files.append(File.generated(config, page, content=text))
    config.nav = expanded(config.nav, [file.src_uri for file in files.documentation_pages()])
    return files


def expanded(entry: Any, pages: list[str]) -> Any:
    """A part of the navigation, with the pages that each pattern in it stands for."""
    if isinstance(entry, dict):
        return {title: expanded(part, pages) for title, part in entry.items()}
    if not isinstance(entry, list):
        return entry
    result: list[Any] = []
    for part in entry:
        if isinstance(part, str) and "*" in part:
            result += sorted(page for page in pages if fnmatch(page, part) and page not in result)
        else:
            result.append(expanded(part, pages))
    return result


def reference() -> dict[str, str]:
    """A page for every class in `holdfast.__all__`, one for everything else in it, and a list of them all."""
    public = {name: getattr(holdfast, name) for name in holdfast.__all__}
    classes = [name for name, thing in public.items() if isclass(thing)]
    functions = [name for name, thing in public.items() if isfunction(thing)]
    registries = [name for name, thing in public.items() if isinstance(thing, Mapping)]
    assert len(classes) + len(functions) + len(registries) == len(public), "a public name of another kind has no page"

    pages = {f"reference/{name}.md": f"---\ntitle: {name}\n---\n{described(name, level=1)}" for name in classes}
    pages["reference/functions.md"] = "# Functions\n\n" + "".join(described(name, level=2) for name in functions)
    pages["reference/index.md"] = INDEX.format(
        functions=listed(functions),
        classes=listed(classes),
        registries="\n".join(f"- `{name}`: {', '.join(f'`{key}`' for key in public[name])}" for name in registries),
    )
    return pages


def location(name: str) -> str:
    """Where a public class or function is defined."""
    thing = getattr(holdfast, name)
    return f"{thing.__module__}.{thing.__qualname__}"


def described(name: str, level: int) -> str:
    """A section by mkdocstrings, under the name that users import."""
    return f"::: {location(name)}\n    options: {{heading: {name}, heading_level: {level}}}\n\n"


def listed(names: list[str]) -> str:
    """A list of links, each with the first line of the docstring."""
    lines = {name: (getdoc(getattr(holdfast, name)) or "").partition("\n")[0] for name in names}
    return "\n".join(f"- [`{name}`][{location(name)}]: {line}" for name, line in lines.items())


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Markdown of GitHub as MkDocs reads it: links between pages of the site, and an empty line before every list."""
    here = page.file.src_uri
    source = SOURCES.get(here, f"docs/{here}")

    def rewritten(link: re.Match[str]) -> str:
        text, path, heading = link["text"], link["path"], link["heading"] or ""
        if path is None or "://" in path:
            return link[0]
        target = normpath(join(dirname(source), path))
        if target in PAGES or target.startswith("docs/"):
            place = PAGES.get(target, target.removeprefix("docs/"))
            return f"[{text}]({relpath(place, dirname(here) or '.')}{heading})"
        return to_file(text, target, config.extra["files_url"])

    markdown = LIST.sub(lambda found: f"{found[0]}\n" if found["before"] else found[0], markdown)
    return LINK.sub(rewritten, markdown)


def to_file(text: str, path: str, files_url: str) -> str:
    """A link to a file that is no page; where the repository has no address, its path."""
    if files_url:
        return f"[{text}]({files_url}/{path})"
    return f"`{path}`" if path.endswith(text.strip("`")) else f"{text} (`{path}`)"
