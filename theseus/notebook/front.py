"""The files of `static/` as one text each, which is what a widget sends to the browser.

A widget's module reaches the page as a string, from where it cannot import a file that lies beside
it. So the modules that it imports (`import { h } from "./dom.js"`) are put in front of it, each in
a scope of its own. Nothing is built and no Node is needed; the same files are read as they are by
the type checker, by their own tests, and by the JupyterLab extension.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

# The one form of import that the modules here use, on one line or several.
_IMPORT = re.compile(r'^import\s*\{([^}]*)\}\s*from\s*"\./([\w-]+)\.js";[^\S\n]*$', re.MULTILINE)
_EXPORT = re.compile(
    r"^export\s+(?=(?:async\s+)?(?:function\*?|class|const|let)\s+(\w+))", re.MULTILINE
)
_DEFAULT = re.compile(r"^export\s+default\b", re.MULTILINE)
_ANY_MODULE_WORD = re.compile(r"^(?:import|export)\b.*$", re.MULTILINE)


@cache
def esm(name: str) -> str:
    """The module `static/NAME.js` with all that it imports, as one ES module.

    Raises `ValueError` where a module imports or exports in another form than
    `import { a, b } from "./name.js";`, `export function|class|const|let name` and, in the module
    asked for only, `export default`.
    """
    scopes: list[str] = []
    text = _linked(name, scopes, ())
    body = _EXPORT.sub("", text)
    _refuse_others(name, _DEFAULT.sub("", body))
    return "\n".join([*scopes, body])


@cache
def css(*names: str) -> str:
    """The style sheets `static/NAME.css`, after the colours and sizes that all widgets share."""
    return "\n".join(_read(f"{name}.css") for name in ("theme", *names))


def _linked(name: str, scopes: list[str], above: tuple[str, ...]) -> str:
    """The text of a module with its imports turned into names of scopes, which are added first."""
    if name in above:
        msg = f"static/{name}.js imports itself: {' → '.join([*above, name])}"
        raise ValueError(msg)

    def bound(match: re.Match[str]) -> str:
        names, module = match[1], match[2]
        _add_scope(module, scopes, (*above, name))
        names = re.sub(r"(\w+)\s+as\s+(\w+)", r"\1: \2", names)
        return f"const {{{names}}} = {_scope(module)};"

    return _IMPORT.sub(bound, _read(f"{name}.js"))


def _add_scope(name: str, scopes: list[str], above: tuple[str, ...]) -> None:
    start = f"const {_scope(name)} = (() => {{\n"
    if any(scope.startswith(start) for scope in scopes):
        return
    text = _linked(name, scopes, above)
    exported = _EXPORT.findall(text)
    body = _EXPORT.sub("", text)
    _refuse_others(name, body)
    scopes.append(f"{start}{body}\nreturn {{ {', '.join(exported)} }};\n}})();")


def _scope(name: str) -> str:
    return f"module_{name.replace('-', '_')}"


def _refuse_others(name: str, text: str) -> None:
    if odd := _ANY_MODULE_WORD.search(text):
        msg = f"static/{name}.js cannot be joined: {odd[0].strip()!r}"
        raise ValueError(msg)


def _read(name: str) -> str:
    return (files("theseus.notebook") / "static" / name).read_text(encoding="utf-8")
