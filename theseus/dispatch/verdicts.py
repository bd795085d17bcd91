"""The hosts with what each says to a request, as rows for a view."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypedDict

from theseus.combobulation import Combobulation
from theseus.dispatch.inventory import Host, Inventory
from theseus.dispatch.providers.base import Verdict
from theseus.dispatch.solve import Solution


class HostRow(TypedDict):
    """One host and what it says; `fit` is that of its verdict, or `asking`."""

    name: str
    type: str
    chips: str
    fit: str
    verdict: str
    reason: str
    chosen: bool


def host_rows(
    known: Inventory, solution: Solution | None, before: Iterable[HostRow] = ()
) -> list[HostRow]:
    """Return a row for each host, in priority order.

    Parameters
    ----------
    solution
        What they said; None while they are asked.
    before
        The rows as they were: shown until there is an answer.
    """
    said = {} if solution is None else {one.host: one for one in solution.verdicts}
    texts = {} if solution is None else {row[1]: row[2:] for row in solution.table()}
    old = {row["name"]: row for row in before}
    rows = []
    for name in known.priority:
        host, verdict = known.hosts[name], said.get(name)
        if verdict is None:
            rows.append(old.get(name) or _row(host, "asking", "", "asking …"))
            continue
        word, reason = texts.get(name, ("", verdict.reason))
        chosen = solution is not None and verdict is solution.chosen
        rows.append(_row(host, verdict.fit, word, reason, verdict, chosen=chosen))
    return rows


def _row(
    host: Host,
    fit: str,
    word: str,
    reason: str,
    verdict: Verdict | None = None,
    *,
    chosen: bool = False,
) -> HostRow:
    total = verdict.total if verdict is not None and verdict.total else host.chips
    chips = _chips(total, verdict.free if verdict is not None else {})
    return HostRow(
        name=host.name, type=host.type, chips=chips, fit=fit, verdict=word, reason=reason,
        chosen=chosen,
    )  # fmt: skip


def _chips(total: Mapping[str, int], free: Mapping[str, int]) -> str:
    return ", ".join(
        f"{free[chip]} of {count} {chip}" if chip in free else f"{count} {chip}"
        for chip, count in total.items()
    )


def asks(spec: Combobulation) -> str:
    """Return the chips that a recipe asks for, in a few words."""
    asked = spec.resources
    kinds = " or ".join(asked.chips)
    if asked.gpus == 0:
        return "no chips"
    if asked.gpus is None:
        return kinds or "any chips"
    return f"{asked.gpus} × {kinds or 'any chip'}"
