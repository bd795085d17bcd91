"""Sphinx: Markdown pages, and the Python reference from docstrings."""

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
