"""SVG written as text: elements whose attributes and contents are always escaped."""

from dataclasses import dataclass, field
from typing import Final

from markupsafe import Markup, escape

from functions.query.plain import clean, short

CHARACTER_PX: Final = 7.0
"""Width of a character of the pictures' 12 px text, on average and on the safe side."""


@dataclass(slots=True)
class Drawing:
    """A picture with a title and a description for those who do not see it."""

    name: str
    title: str
    description: str
    width: float
    height: float
    parts: list[str] = field(default_factory=list)

    def add(self, tag: str, content: str | None = None, **attributes: object) -> None:
        """Add an element; `content` is text, `cls` is the class, `tip` a tooltip."""
        tip = attributes.pop("tip", None)
        inner = "" if content is None else str(escape(clean(content)))
        if tip is not None:
            inner += f"<title>{escape(clean(str(tip), 600))}</title>"
        self.parts.append(f"<{tag}{_attributes(attributes)}>{inner}</{tag}>")

    def text(self, x: float, y: float, content: str, *, limit: int = 200, **more: object) -> None:
        """Add a line of text, cut to `limit` characters."""
        shown = short(content, limit)
        if shown != content:
            more["tip"] = content
        self.add("text", shown, x=x, y=y, **more)

    def open(self, tag: str, **attributes: object) -> None:
        """Open a group or a link."""
        self.parts.append(f"<{tag}{_attributes(attributes)}>")

    def close(self, tag: str) -> None:
        """Close what was opened."""
        self.parts.append(f"</{tag}>")

    def markup(self) -> Markup:
        """Return the picture."""
        label = f"{self.name}-title {self.name}-desc"
        head = (
            f'<svg class="picture {escape(self.name)}" role="img" aria-labelledby="{label}" '
            f'viewBox="0 0 {_number(self.width)} {_number(self.height)}" '
            f'width="{_number(self.width)}" height="{_number(self.height)}">'
            f'<title id="{self.name}-title">{escape(clean(self.title))}</title>'
            f'<desc id="{self.name}-desc">{escape(clean(self.description))}</desc>'
        )
        return Markup(head + "".join(self.parts) + "</svg>")  # noqa: S704  every part is escaped


def _attributes(attributes: dict[str, object]) -> str:
    told = []
    for name, value in attributes.items():
        if value is None:
            continue
        shown = _number(value) if isinstance(value, float) else str(value)
        plain = "class" if name == "cls" else name.replace("_", "-")
        told.append(f' {plain}="{escape(shown)}"')
    return "".join(told)


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
