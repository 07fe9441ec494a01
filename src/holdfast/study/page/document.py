"""A whole page: one file that loads nothing from elsewhere, and runs no script but its own."""

import hashlib
from base64 import b64encode
from collections.abc import Sequence
from importlib.resources import files

from holdfast.study.page.markup import Html, element, joined
from holdfast.study.page.section import Section


def document(head: Sequence[str], sections: Sequence[Section], bodies: Sequence[Html], maker: str) -> str:
    """The document of these sections; `head` is what stands above, beside and below the title."""
    kind, title, extent = head
    style, script = (
        Html(files(__package__).joinpath(name).read_text(encoding="utf-8")) for name in ("page.css", "page.js")
    )
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; media-src data:; script-src 'sha256-{digest}'"
    )
    top = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name_="color-scheme", content="light dark"),
        element("title", f"Holdfast: {title}"),
        element("style", style),
    )
    links = [element("li", element("a", section.title, href=f"#{section.key}")) for section in sections]
    body = element(
        "body",
        element("a", "To the results", href="#main", class_="skip"),
        element(
            "header",
            element("p", kind, class_="kicker"),
            element("h1", title),
            element("p", extent, class_="kicker"),
        ),
        element("nav", element("ul", *links), aria_label="Contents"),
        element("main", *bodies, id="main", tabindex="-1"),
        element("footer", element("p", f"Made by {maker}. One file, nothing is loaded from elsewhere.")),
        element("script", script),
    )
    return f"<!doctype html>\n{element('html', joined(top, body), lang='en')}\n"
