"""Sphinx: Markdown pages, and the Python reference from docstrings."""

import re

import theseus

project = "Theseus"
author = "The Theseus authors"
copyright = "The Theseus authors"
release = version = theseus.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["generate.py"]
html_theme = "furo"
html_title = f"Theseus {release}"

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_member_order = "bysource"
autodoc_typehints = "description"
napoleon_google_docstring = False


def read_as_markdown(app, what, name, item, options, lines):
    """Make of a docstring what reStructuredText wants: our docstrings are written like Markdown.

    `code` becomes a literal, and an indented block after an empty line an example. The sections of
    numpy style ("Parameters" and so on) were turned into fields before, and stay.
    """
    read, example = [], False
    for line in lines:
        indented = line.startswith("    ") and not lines_are_a_field(read)
        if indented and not example and read and not read[-1].strip():
            read += ["::", ""]
            example = True
        elif line.strip() and not indented:
            example = False
        read.append(line if example else re.sub(r"(?<![`:])`([^`]+)`(?!`)", r"``\1``", line))
    lines[:] = read


def lines_are_a_field(lines):
    """Return whether the last line that is not indented begins a field or a directive."""
    flush = [line for line in lines if line.strip() and not line.startswith(" ")]
    return bool(flush) and flush[-1].startswith((":", ".. "))


def setup(app):
    # After napoleon, which has read the numpy sections by then.
    app.connect("autodoc-process-docstring", read_as_markdown, priority=900)
