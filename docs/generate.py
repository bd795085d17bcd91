"""Write the reference pages that follow from the code.

python docs/generate.py            write docs/reference/*.md
python docs/generate.py --check    say which page is out of date; exit status 1 when one is
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from theseus.config import MISSING, KeyRecord, describe
from theseus.registry import Entry, Kind, entries

FOLDER = Path(__file__).parent / "reference"
Cells = tuple[str, ...]
NOTE = "<!-- Written by docs/generate.py from the code: `make reference`. -->\n"


def main(arguments: list[str] | None = None) -> int:
    """Write or check the pages; return the exit status."""
    parser = argparse.ArgumentParser(description="Write docs/reference from the code.")
    parser.add_argument("--check", action="store_true", help="compare only, write nothing")
    options = parser.parse_args(arguments)
    pages = {"config.md": config_page(), "registry.md": registry_page()}
    stale = {name: text for name, text in pages.items() if read(FOLDER / name) != text}
    for name, text in stale.items():
        if options.check:
            print(f"docs/reference/{name} is out of date; `make reference` writes it:")
            print(*changes(read(FOLDER / name), text), sep="\n")
        else:
            (FOLDER / name).write_text(text, encoding="utf-8")
            print(f"docs/reference/{name}")
    return 1 if options.check and stale else 0


def config_page() -> str:
    """Return the page with every configuration key of the built-in jobs."""
    uses: dict[str, dict[Cells, list[str]]] = defaultdict(lambda: defaultdict(list))
    for job in built_in("job"):
        for record in describe(job.load()):
            uses[record.key][cells(record)].append(job.key)
    # By section, and in it by the jobs that share the keys.
    tables: dict[str, dict[Cells, list[str]]] = defaultdict(lambda: defaultdict(list))
    for key, forms in sorted(uses.items()):
        for described, jobs in forms.items():
            line = table_row(f"`{key}`", *described)
            tables[key.split(".")[0]][shortened(jobs)].append(line)
    parts = [
        NOTE,
        "# Configuration keys\n",
        (
            "Every key of the built-in jobs. In Python a key is an attribute "
            "(`q.config.architecture.n_embd = 128`), in YAML it is nested or dotted, and on the "
            "command line it is `architecture.n_embd=128`. A default of `???` has to be set before "
            "the job can run.\n"
        ),
    ]
    head = [table_row("key", "type", "default", "what it is"), table_row(*["---"] * 4)]
    for section, groups in sorted(tables.items()):
        parts.append(f"## {section}\n")
        for users, lines in groups.items():
            parts.append("Used by " + ", ".join(f"`{job}`" for job in users) + ":\n")
            parts += [*head, *lines, ""]
    return "\n".join(parts)


def registry_page() -> str:
    """Return the page with everything that is registered under a key."""
    parts = [
        NOTE,
        "# Jobs, datasets and evaluations\n",
        (
            "What is built in, by its key. `@job`, `@dataset` and `@evaluation` of "
            "`theseus.registry` add to it.\n"
        ),
    ]
    kinds: dict[Kind, str] = {"job": "Jobs", "dataset": "Datasets", "evaluation": "Evaluations"}
    for kind, heading in kinds.items():
        head = table_row("key", "what it is", "class")
        lines = [
            table_row(f"`{entry.key}`", entry.help, f"`{str(entry.target).replace(':', '.')}`")
            for entry in built_in(kind)
        ]
        parts += [f"## {heading}\n", head, table_row(*["---"] * 3), *lines, ""]
    return "\n".join(parts)


def built_in(kind: Kind) -> list[Entry]:
    """Return the entries that Theseus brings along."""
    return [entry for entry in entries(kind) if isinstance(entry.target, str)]


def shortened(jobs: list[str]) -> tuple[str, ...]:
    """Return the keys with `folder/*` in place of all jobs of a folder that has several."""
    every = [entry.key for entry in built_in("job")]
    names = []
    for job in jobs:
        folder = job.rpartition("/")[0]
        siblings = {other for other in every if other.rpartition("/")[0] == folder}
        names.append(f"{folder}/*" if len(siblings) > 1 and siblings <= set(jobs) else job)
    return tuple(dict.fromkeys(names))


def cells(record: KeyRecord) -> Cells:
    """Return type, default and meaning of a key as cells of a table."""
    default = "`???`" if record.default is MISSING else f"`{show(record.default)}`"
    return f"`{record.type}`", default, "; ".join(meaning(record))


def meaning(record: KeyRecord) -> list[str]:
    """Return what a key is for and which values it takes."""
    parts = [record.help.replace("*", "\\*")] if record.help else []
    bounds = [
        f"{sign}\N{NO-BREAK SPACE}{show(bound)}"
        for sign, bound in (("≥", record.ge), ("≤", record.le))
        if bound is not None
    ]
    if bounds:
        parts.append(" and ".join(bounds))
    if record.choices and "|" not in record.type:
        parts.append("one of " + ", ".join(f"`{show(choice)}`" for choice in record.choices))
    return parts


def show(value: Any) -> str:
    """Return a value as it is written in YAML or on the command line."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e6:
        return f"{value:.1f}"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, str):
        return value or '""'
    return str(value)


def table_row(*cells: str) -> str:
    """Return one row of a Markdown table."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def changes(before: str, after: str) -> Sequence[str]:
    """Return the first differing lines of two texts."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))][:20]


def read(path: Path) -> str:
    """Return the text of a page, or nothing when there is none yet."""
    return path.read_text(encoding="utf-8") if path.exists() else ""


if __name__ == "__main__":
    sys.exit(main())
