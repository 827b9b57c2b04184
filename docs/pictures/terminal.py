"""Draws the output of a program on a terminal: lines of text, bold and in colours."""

import re

import svg

BACKGROUND = "#161b22"
STYLE = f"""text {{ font: 14px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  fill: #d6dbe1; white-space: pre }}
.prompt {{ fill: #9aa4af }} .bold {{ font-weight: 600 }}
.red {{ fill: #ff7b72 }} .green {{ fill: #56c271 }} .yellow {{ fill: #d9a62e }}
.panel {{ fill: {BACKGROUND} }}"""
COLUMN, LINE, MARGIN = 8.5, 20, 16
KINDS = {"1": "bold", "31": "red", "32": "green", "33": "yellow"}


def lines_on_screen(output):
    """Returns the lines that the terminal shows after this output: the last frame, if the
    program drew several, and the last state of each line that was overwritten."""
    frame = output.rsplit("\x1b[H", 1)[-1]
    frame = re.sub(r"\x1b\[[?0-9;]*[A-Za-ln-z]", "", frame)
    lines = [line.rstrip("\r").rsplit("\r", 1)[-1] for line in frame.split("\n")]
    while lines and not plain(lines[-1]).strip():
        lines.pop()
    return lines


def plain(line):
    return re.sub(r"\x1b\[[0-9;]*m", "", line)


def spans(line):
    """Yields column, text and kind for the words of a line. Gaps are left out, so that each
    word starts in its column whatever the width of the font is."""
    column, kind = 0, ""
    for piece in re.split(r"(\x1b\[[0-9;]*m)", line):
        found = re.fullmatch(r"\x1b\[([0-9;]*)m", piece)
        if found:
            kind = KINDS.get(found[1], "")
            continue
        for word in re.finditer(r"\S+( \S+)*", piece):
            yield column + word.start(), word[0], kind
        column += len(piece)


def draw(title, command, output):
    """Returns a picture of a command line and its output on the screen."""
    lines = lines_on_screen(output)
    body = [svg.text(MARGIN, MARGIN + LINE * 0.7, "$", "prompt"),
            svg.text(MARGIN + 2 * COLUMN, MARGIN + LINE * 0.7, command)]
    for number, line in enumerate(lines, 1):
        y = MARGIN + LINE * (number + 0.7)
        body += [svg.text(MARGIN + column * COLUMN, y, words, kind)
                 for column, words, kind in spans(line)]
    columns = max(len(plain(line)) for line in [command + "  ", *lines])
    width, height = 2 * MARGIN + columns * COLUMN, 2 * MARGIN + LINE * (len(lines) + 1)
    panel = svg.bar(0, 0, width, height, "panel").replace('rx="2"', 'rx="8"')
    description = "\n".join(["$ " + command, *map(plain, lines)])
    return svg.document(width, height, title, description, [panel, *body], STYLE)
