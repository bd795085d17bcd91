"""A run in a few facts: what every short view of it shows, in a terminal or a notebook."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from theseus.runs import words
from theseus.runs.metrics import plain_numbers, role

Number = int | float

# State by shape as well as by word; colour is added where there is one.
SHAPES = {
    "queued": "○",
    "preparing": "◔",
    "running": "●",
    "finished": "✓",
    "failed": "✗",
    "cancelled": "■",
    "lost": "?",
}


_OTHERS = 6  # so many values without a known meaning are shown; all of them are in the metrics


@dataclass(frozen=True)
class Progress:
    """How far a job is.

    Attributes
    ----------
    done, total, unit
        So many units of so many; `total` is None when nobody knows.
    facts
        What else the job says about where it is, shown as it is.
    rate
        Units per second over the last while; None until that is known.
    remaining
        An estimate in seconds; None until there is one.
    """

    done: Number
    total: Number | None
    unit: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    rate: float | None = None
    remaining: float | None = None

    @property
    def fraction(self) -> float | None:
        """How much is done, from 0 to 1; None when the total is not known."""
        if not self.total:
            return None
        return min(max(self.done / self.total, 0.0), 1.0)

    def plain(self) -> dict[str, Any]:
        """Return it as a record."""
        return asdict(self)

    @classmethod
    def of(cls, record: Mapping[str, Any] | None) -> Progress | None:
        """Return what `plain` returned, as it was.

        Raises
        ------
        TypeError, ValueError
            When it is something else: a record that came from a host may be anything.
        """
        if not record:
            return None
        known = {name: record[name] for name in cls.__dataclass_fields__ if name in record}
        known["facts"] = plain_numbers(known.get("facts") or {})
        made = cls(**known)
        unit: Any = made.unit
        if not isinstance(unit, str) or not _is_number(made.done):
            raise TypeError("progress is a number of some unit")
        if not all(
            one is None or _is_number(one) for one in (made.total, made.rate, made.remaining)
        ):
            raise TypeError("what a run has to do is a number, and so is how fast it is")
        return made


def _is_number(value: Any) -> bool:
    whole = isinstance(value, int | float) and not isinstance(value, bool)
    return whole and math.isfinite(value)


@dataclass(frozen=True)
class Fact:
    """One labelled value: `loss`, `3.41`. `detail` is shown where there is room."""

    label: str
    value: str
    detail: str = ""


@dataclass(frozen=True)
class Summary:
    """The facts about one run that a card or a line shows."""

    name: str
    id: str
    job: str
    folder: Path
    state: str
    reason: str | None = None
    attempt: int = 1
    host: str = ""
    since: float | None = None
    elapsed: float | None = None
    progress: Progress | None = None
    latest: Mapping[str, Number] = field(default_factory=dict)
    best: Mapping[str, Any] | None = None
    checkpoint: int | None = None

    @property
    def position(self) -> str:
        """`step 1,240/3,814 (32 %)`, or an empty text."""
        progress = self.progress
        if progress is None:
            return ""
        unit = progress.unit
        if progress.total is None:
            return f"{words.count(progress.done)} {unit}"
        percent = f"{100 * (progress.fraction or 0):.0f} %"
        counts = f"{words.count(progress.done)}/{words.count(progress.total)}"
        if unit in {"step", "steps"}:
            return f"step {counts} ({percent})"
        return f"{counts} {unit} ({percent})"

    @property
    def remaining(self) -> str:
        """`41 min left`, or an empty text."""
        progress = self.progress
        if self.state != "running" or progress is None or not progress.remaining:
            return ""
        return words.remaining(progress.remaining)

    @property
    def headline(self) -> str:
        """The state as a sentence would say it: `finished in 2 min 10 s`."""
        if self.state == "finished" and self.elapsed is not None:
            return f"finished in {words.duration(self.elapsed)}"
        if self.state == "running" and self.attempt > 1:
            return f"running (attempt {self.attempt})"
        if self.state == "cancelled" and self.reason:
            return f"cancelled ({words.clipped(words.one_line(self.reason), 200)})"
        return self.state

    def facts(self) -> list[Fact]:
        """Return the measured values worth showing, the most wanted first."""
        by_role: dict[str, Number] = {}
        others: dict[str, Fact] = {}
        told = dict(self.progress.facts) if self.progress is not None else {}
        # Shown already, as the position, the speed and the time left.
        known = {"rate", "remaining"} | ({self.progress.unit} if self.progress else set())
        # What the job says with its progress is as new as the last report, or newer.
        for name, value in {**self.latest, **told}.items():
            meaning, last = role(name), name.rpartition("/")[2]
            if meaning is not None:
                if isinstance(value, int | float):
                    by_role[meaning] = value
            elif last not in known and not name.startswith("train/"):
                others[last] = Fact(words.one_line(name), shown(value))
        facts = []
        if "loss" in by_role:
            facts.append(Fact("loss", words.number(by_role["loss"])))
        if "validation" in by_role:
            best = self.best or {}
            # The newest is often the best: then there is nothing to add.
            better = bool(best) and best["value"] != by_role["validation"]
            detail = f"best {words.number(best['value'])} at {best['step']:,}" if better else ""
            facts.append(Fact("val loss", words.number(by_role["validation"]), detail))
        if "learning rate" in by_role:
            facts.append(Fact("lr", words.number(by_role["learning rate"])))
        if "rate" in by_role:
            facts.append(Fact("speed", words.rate(by_role["rate"], "tokens")))
        elif self.progress is not None and self.progress.rate is not None:
            facts.append(Fact("speed", words.rate(self.progress.rate, self.progress.unit)))
        return facts + list(others.values())[:_OTHERS]

    def next_step(self, again: str) -> str:
        """Say how an unfinished run goes on.

        Parameters
        ----------
        again
            What the user does for it here, for example `Run this cell again`.
        """
        if self.checkpoint is None:
            return f"{again} to start it again: it had saved no checkpoint."
        return f"{again} to go on from step {self.checkpoint:,}."

    def text(self) -> str:
        """Return the text form: one line of facts, one with the folder."""
        name = words.one_line(self.name)
        parts = [f"{name} {self.id}", self.headline, words.one_line(self.host), self.position]
        for fact in self.facts():
            value = fact.value if fact.label == "speed" else f"{fact.label} {fact.value}"
            parts.append(f"{value} ({fact.detail})" if fact.detail else value)
        parts.append(self.remaining)
        lines = ["  ".join(part for part in parts if part)]
        if self.reason and self.state in {"failed", "lost"}:
            reason = words.clipped(self.reason, 1000).splitlines()[:20]
            lines.extend(words.one_line(line) for line in reason)
        lines.append(f"folder  {words.shown_path(self.folder)}")
        return "\n".join(lines)


def shown(value: Any) -> str:
    """Return a fact's value as people read it."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return words.one_line(words.clipped(str(value), 80))
    return words.number(value)
