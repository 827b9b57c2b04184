"""Reads figures of the bench: the file that `tests/bench/run --write` writes.

Comments begin with "#"; the first one describes the machine. The first row has the names of
the columns. Columns are separated by one tab; "-" means that there is no value.
"""

import re
import sys
from dataclasses import dataclass

COLUMNS = ["part", "what", "dlock", "peer", "ratio", "low", "high"]


class Invalid(Exception):
    """A file is malformed. The message says where."""


@dataclass(frozen=True)
class Figure:
    part: str   # of the bench
    what: str   # unique in its part; the name of the peer comes after "; "
    dlock: str  # a median with its unit
    peer: str
    ratio: str  # of the medians, dlock's to the peer's
    low: str    # quartiles of the rounds' own ratios
    high: str


def number_of(text):
    """Returns the number that a value begins with, or None if there is none."""
    found = re.match(r"-?[0-9]+(\.[0-9]+)?", text)
    return float(found.group()) if found else None


def read(path):
    """Returns the machine and a list of figures. Raises Invalid or OSError."""
    machine, rows = "", []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            line = line.rstrip("\n")
            if line.startswith("#"):
                machine = machine or line[1:].strip()
            elif line:
                rows.append((number, line.split("\t")))
    if not rows or rows[0][1] != COLUMNS:
        raise Invalid(f"{path}: the first row is not: {' '.join(COLUMNS)}")
    figures = {}
    for number, cells in rows[1:]:
        if len(cells) != len(COLUMNS):
            raise Invalid(f"{path}:{number}: expected {len(COLUMNS)} columns, found {len(cells)}")
        if tuple(cells[:2]) in figures:
            raise Invalid(f"{path}:{number}: duplicate figure: {cells[0]}: {cells[1]}")
        figures[tuple(cells[:2])] = Figure(*cells)
    return machine, list(figures.values())


def run_program(program, main):
    """Runs `main`. An invalid file gives a message of one line and exit code 65."""
    try:
        sys.exit(main(sys.argv[1:]))
    except (Invalid, OSError) as error:
        print(f"{program}: {error}", file=sys.stderr)
        sys.exit(65)
