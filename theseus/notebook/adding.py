"""Adding a host from a notebook: the steps of `theseus hosts add`, each with what it found."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NotRequired, TypedDict

from theseus.dispatch import introduce
from theseus.dispatch.inventory import load_inventory, path_to_write
from theseus.dispatch.transport.ssh_config_reader import aliases


class Asked(TypedDict):
    """One folder to ask for."""

    key: str
    text: str
    proposed: str


class Adding(TypedDict):
    """How far the steps have come: `alias`, `folders`, `entry`, `done`."""

    step: str
    aliases: list[str]
    path: str
    alias: NotRequired[str]
    name: NotRequired[str]
    found: NotRequired[list[list[str]]]
    questions: NotRequired[list[Asked]]
    yaml: NotRequired[str]
    notes: NotRequired[list[str]]
    said: NotRequired[str]


class Steps:
    """One host that is being added; each step raises `UserError` and can be done again."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path_to_write(path)
        self._known = load_inventory(self.path) if self.path.exists() else None
        self._alias = ""
        self._found: introduce.Found | None = None
        self._proposal: introduce.Proposal | None = None

    def begin(self) -> Adding:
        """Return the names to choose from: those of the user's ssh configuration, but known ones."""
        known = self._known.hosts.values() if self._known else ()
        taken = {host.ssh for host in known}
        names = [name for name in aliases() if name not in taken]
        return Adding(step="alias", aliases=names, path=str(self.path))

    def look(self, alias: str) -> Adding:
        """Look at a host; return what was found and which folders are asked for."""
        self._found = introduce.look(alias.strip())
        self._alias = alias.strip()
        questions = introduce.questions(self._found)
        return {
            **self.begin(),
            "step": "folders",
            "alias": self._alias,
            "name": self._alias,
            "found": [list(row) for row in self._found.rows()],
            "questions": [Asked(key=q.key, text=q.text, proposed=q.proposed) for q in questions],
        }

    def propose(self, name: str, folders: Mapping[str, str]) -> Adding:
        """Return the lines that would be written."""
        if self._found is None:
            return self.begin()
        chosen = {q.key: folders.get(q.key) or q.proposed for q in introduce.questions(self._found)}
        self._proposal = introduce.propose(
            self._alias,
            self._found,
            introduce.Folders(chosen["root"], chosen["work"], chosen.get("log") or None),
            name=name.strip() or None,
            inventory=self._known,
        )
        return {
            **self.begin(),
            "step": "entry",
            "alias": self._alias,
            "name": self._proposal.host,
            "yaml": self._proposal.text,
            "notes": list(self._proposal.notes),
        }

    def write(self) -> Adding:
        """Write the entry that was shown."""
        if self._proposal is None:
            return self.begin()
        introduce.write_entry(self.path, self._proposal)
        host = self._proposal.host
        said = f"wrote '{host}' to {self.path}; `theseus hosts test {host}` tries the whole way"
        return {**self.begin(), "step": "done", "said": said}
