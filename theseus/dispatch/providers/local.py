"""The machine that theseus runs on: the same claims and the same detached worker, no connection."""

from __future__ import annotations

from theseus.dispatch.providers.plain import PlainProvider


class LocalProvider(PlainProvider):
    """The machine that theseus runs on."""
