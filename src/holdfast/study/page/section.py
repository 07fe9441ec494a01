"""A section of the page: a heading, an introduction, and figures."""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.study.figures.drawing import Drawing
from holdfast.study.page.markup import Child, Html, element, figure, joined


@dataclass(frozen=True)
class Section:
    """One section; drawings are side by side if there is room."""

    key: str  # of its anchor
    title: str
    before: Child
    drawings: Sequence[Drawing] = ()
    after: Child = None

    def html(self) -> Html:
        """The section as it stands in the page."""
        grid = element("div", *(figure(drawing) for drawing in self.drawings), class_="grid") if self.drawings else None
        heading = element("h2", self.title, id=f"{self.key}-title")
        return element(
            "section", heading, joined(self.before, grid, self.after), id=self.key, aria_labelledby=f"{self.key}-title"
        )
