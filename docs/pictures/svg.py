"""Parts of an SVG picture that can be read on a white and on a dark page.

A picture in an <img> cannot tell which of the two it is on: readers may choose another theme
on a web site than on their system. Each colour therefore has a contrast of at least 4 with both
(tests/bats/pictures.bats checks it). The fonts are those of the reader's system.
"""

from xml.sax.saxutils import escape

GREY, BLUE, RED, GREEN, AMBER = "#767b82", "#2f7de1", "#dc4c3f", "#2c8a4b", "#bb6b00"

STYLE = f"""text {{ font: 14px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; fill: {GREY} }}
.small {{ font-size: 12px }}
.title {{ font-size: 16px; font-weight: 600 }}
.blue {{ fill: {BLUE} }} .red {{ fill: {RED} }} .green {{ fill: {GREEN} }} .amber {{ fill: {AMBER} }}
.grey {{ fill: {GREY} }}
line {{ stroke: {GREY}; stroke-width: 1 }}
.faint {{ opacity: 0.35 }}"""


def number(value):
    """Formats with at most one decimal place, so that a picture is the same on all machines."""
    return f"{value:.1f}".removesuffix(".0")


def text(x, y, words, kind="", anchor="start"):
    kind = f' class="{kind}"' if kind else ""
    anchor = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text x="{number(x)}" y="{number(y)}"{kind}{anchor}>{escape(words)}</text>'


def bar(x, y, width, height, kind):
    return (f'<rect x="{number(x)}" y="{number(y)}" width="{number(width)}" '
            f'height="{number(height)}" rx="2" class="{kind}"/>')


def dot(x, y, radius, kind):
    return f'<circle cx="{number(x)}" cy="{number(y)}" r="{number(radius)}" class="{kind}"/>'


def line(x1, y1, x2, y2, kind=""):
    kind = f' class="{kind}"' if kind else ""
    return (f'<line x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" '
            f'y2="{number(y2)}"{kind}/>')


def document(width, height, title, description, body, style=STYLE):
    """Returns the whole picture. The description is for readers who cannot see it."""
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {number(width)} {number(height)}" '
        f'width="{number(width)}" height="{number(height)}" role="img" aria-labelledby="t d">',
        f'<title id="t">{escape(title)}</title>',
        f'<desc id="d">{escape(description)}</desc>',
        f"<style>\n{style}\n</style>",
        *body,
        "</svg>"])
