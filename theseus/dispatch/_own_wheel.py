"""Theseus as an index would list it: its metadata as a wheel without code.

A project that names theseus among its dependencies is resolved by uv on the host. Where the theseus
that runs here came from no index, its source is sent beside the project; uv must still find that
there is such a package, and what it needs in turn.
"""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from functools import cache
from importlib import metadata

from theseus.dispatch.manifest import PACKAGE

_WHEEL = "Wheel-Version: 1.0\nGenerator: theseus\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
_LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the same bytes every time


@cache
def own_wheel() -> tuple[str, bytes] | None:
    """Return the file's name and content; None where theseus is not installed."""
    try:
        distribution = metadata.distribution(PACKAGE)
    except metadata.PackageNotFoundError:
        return None
    text = distribution.read_text("METADATA") or distribution.read_text("PKG-INFO")
    if not text:
        return None
    start = f"{PACKAGE.replace('-', '_')}-{distribution.version}"
    folder = f"{start}.dist-info"
    files = {f"{folder}/METADATA": text.encode(), f"{folder}/WHEEL": _WHEEL.encode()}
    lines = [f"{name},sha256={_digest(content)},{len(content)}" for name, content in files.items()]
    record = f"{folder}/RECORD"
    files[record] = "\n".join([*lines, f"{record},,", ""]).encode()
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, _LONG_AGO), content)
    return f"{start}-py3-none-any.whl", made.getvalue()


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
