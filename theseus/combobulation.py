"""A recipe plus resources: what to run, and what it needs to run on.

    c = q.spec().chip("h100").gpu(4).shard(tp=2, fsdp=True)
    OmegaConf.save(c.serialize(), "out.yaml")

A `Combobulation` never changes: every call returns a new one. As a file it is plain YAML, and
reading it runs no code; the class of the job is looked up when the job is made.
"""

from __future__ import annotations

import copy
import importlib
import os
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import MarkedYAMLError

from theseus import _libthx, _plain
from theseus._plain import SpecError, escape, unescape
from theseus._summary import Card, size_text, value_text
from theseus.code import JobReference
from theseus.errors import UserError, did_you_mean
from theseus.hardware.resources import Resources, parse_size
from theseus.job import RunIdentity

if TYPE_CHECKING:
    from theseus.job import Job
    from theseus.quick import QuickJob

VERSION = 1

# By name: sending and showing know recipes, a recipe does not know how it is sent or shown.
_SENDING, _SHOWING = "theseus.dispatch.submission", "theseus.notebook.hardware"
_REHEARSING = "theseus.dispatch.rehearsal"


@dataclass(frozen=True, eq=False, repr=False)
class Combobulation:
    """What to run and what on; made by `q.spec()` or `Combobulation.deserialize`.

    Attributes
    ----------
    job
        Which class.
    identity
        The name, project and group of the run, as written.
    values
        The configuration as plain nested values; read it through `config`.
    resources
        What it needs.
    changes
        Dotted key → value where the configuration differs from its defaults, as far as known.
    notes
        What could not be taken over from a file of libthx, a line each.
    """

    job: JobReference
    identity: RunIdentity
    values: Mapping[str, Any]
    resources: Resources = field(default_factory=Resources)
    changes: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()

    @property
    def config(self) -> DictConfig:
        """A copy of the configuration, untyped."""
        return OmegaConf.create(copy.deepcopy(dict(self.values)))

    # Resources

    def chip(self, *names: str) -> Combobulation:
        """Accept these chips, beside those named before: `.chip("h100").chip("h200")`."""
        known = self.resources.chips
        return self._with(chips=tuple(dict.fromkeys((*known, *names))))

    def gpu(self, count: int) -> Combobulation:
        """Ask for so many chips in all."""
        return self._with(gpus=count)

    def cpu(self, count: int) -> Combobulation:
        """Ask for so many processor cores per node."""
        return self._with(cpus=count)

    def memory(self, size: str | int) -> Combobulation:
        """Ask for so much main memory per node: `"64G"`, or bytes."""
        return self._with(memory=parse_size(size))

    def cluster(self, *names: str) -> Combobulation:
        """Use these clusters only, beside those named before."""
        known = self.resources.clusters
        return self._with(clusters=tuple(dict.fromkeys((*known, *names))))

    def avoid(self, *names: str) -> Combobulation:
        """Use none of these clusters."""
        return self._with(avoid=tuple(dict.fromkeys((*self.resources.avoid, *names))))

    def nodes(self, count: int) -> Combobulation:
        """Spread the chips evenly over so many machines."""
        return self._with(nodes=count)

    def shard(
        self, tp: int | None = None, *, fsdp: bool | None = None, zero: bool | None = None
    ) -> Combobulation:
        """Choose how the model is spread over the chips; what is left out stays as it is."""
        return self._with(sharding=self.resources.sharding.changed(tp=tp, fsdp=fsdp, zero=zero))

    def named(
        self, name: str, project: str | None = None, group: str | None = None
    ) -> Combobulation:
        """Call the run something else; a project or group that is left out stays."""
        known = self.identity
        identity = identify(name, project or known.project, group or known.group)
        return replace(self, identity=identity)

    def _with(self, **asked: Any) -> Combobulation:
        return replace(self, resources=replace(self.resources, **asked))

    # To a file and back

    def serialize(self) -> DictConfig:
        """Return everything as plain values, for `OmegaConf.save(c.serialize(), "out.yaml")`."""
        return OmegaConf.create(
            {
                "v": VERSION,
                "job": _plain.each_text(self.job.to_plain(), escape),
                "name": escape(self.identity.name),
                "project": escape(self.identity.project),
                "group": escape(self.identity.group),
                "resources": _plain.each_text(self.resources.to_dict(), escape),
                "config": copy.deepcopy(dict(self.values)),
            }
        )

    @classmethod
    def deserialize(cls, saved: DictConfig | Mapping[str, Any]) -> Combobulation:
        """Return what `serialize` was given. Nothing in it is imported, resolved or run.

        A file of libthx 0.4.0 opens too, with a warning that lists what has no counterpart here.

        Raises
        ------
        UserError
            When it is something else; the message names the key and the nearest valid one.
        """
        return cls._from_plain(saved)

    @classmethod
    def _from_plain(
        cls, saved: DictConfig | Mapping[str, Any], called: str | None = None
    ) -> Combobulation:
        if OmegaConf.is_config(saved):
            saved = OmegaConf.to_container(saved, resolve=False)  # type: ignore[assignment]
        given = _plain.mapping("a recipe", saved)
        if _libthx.is_libthx(given):
            return cls._from_libthx(given, called)
        version = given.get("v")
        if version != VERSION:
            told = "has no format number `v`" if version is None else f"is of format {version!r}"
            msg = f"this {told}; a saved recipe of this version of theseus has `v: {VERSION}`"
            raise SpecError(msg)
        _plain.only(
            "a recipe", given, ["v", "job", "name", "project", "group", "resources", "config"]
        )
        for name in ("job", "name", "config"):
            if given.get(name) is None:
                msg = f"the recipe has no '{name}'"
                raise SpecError(msg)
        identity = identify(
            *(
                unescape(_plain.text(part, given.get(part, default)))
                for part, default in (("name", ""), ("project", "general"), ("group", "default"))
            )
        )
        resources = _plain.mapping("resources", given.get("resources") or {})
        return cls(
            JobReference.from_plain(_plain.each_text(given["job"], unescape)),
            identity,
            copy.deepcopy(dict(_plain.mapping("config", given["config"]))),
            Resources.from_dict(_plain.each_text(resources, unescape)),
        )

    @classmethod
    def _from_libthx(cls, given: Mapping[str, Any], called: str | None) -> Combobulation:
        found = _libthx.opened(given)
        identity = identify(called or found.job.name)  # libthx is told the name when it submits
        lines = "\n".join(f"  {note}" for note in found.notes)
        text = f"a file of libthx, opened as the run '{identity.name}'; not taken over:\n{lines}"
        if found.notes:
            warnings.warn(text, _libthx.LibthxWarning, stacklevel=4)
        return cls(found.job, identity, found.values, found.resources, notes=found.notes)

    def save(self, path: str | Path) -> None:
        """Write it to a YAML file, which is replaced whole or not at all."""
        path = Path(path).expanduser()
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            temporary.write_text(OmegaConf.to_yaml(self.serialize()), encoding="utf-8")
            temporary.replace(path)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            msg = f"cannot write {path}: {error.strerror or error}"
            raise SpecError(msg) from error

    @classmethod
    def load(cls, path: str | Path) -> Combobulation:
        """Return what was saved to a file. Nothing in it is imported, resolved or run."""
        path = Path(path).expanduser()
        try:
            return cls._from_plain(OmegaConf.load(path), path.stem)  # type: ignore[arg-type]
        except FileNotFoundError as error:
            beside = [other.name for other in path.parent.glob("*.y*ml")]
            msg = f"there is no file {path}{did_you_mean(path.name, beside)}"
            raise SpecError(msg) from error
        except (OSError, UnicodeDecodeError) as error:
            msg = f"{path} cannot be read: {error}"
            raise SpecError(msg) from error
        except MarkedYAMLError as error:
            line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
            msg = f"{path}{line}: not YAML: {error.problem or error.context}"
            raise SpecError(msg) from error
        except OmegaConfBaseException as error:
            msg = f"{path}: {str(error).splitlines()[0]}"
            raise SpecError(msg) from error
        except UserError as error:
            msg = f"{path}: {error}"
            raise SpecError(msg) from error

    def quick(self, root: str | Path) -> QuickJob:
        """Return the recipe as a `QuickJob` in `root`: now the job's class is loaded."""
        from theseus.quick import open_spec

        return open_spec(self, root)

    def create(self, root: str | Path) -> Job:
        """Return the job, to be run here and now with `job()`."""
        return self.quick(root).create()

    def submit(
        self,
        name: str | None = None,
        *,
        project: str | None = None,
        group: str | None = None,
        dry_run: bool = False,
        **options: Any,
    ) -> Any:
        """Send it to the first host that fits, and return the run as soon as it is launched.

        Parameters
        ----------
        name, project, group
            How the run is called, instead of what the recipe says.
        dry_run
            Send nothing, ask no host; return what would be sent, and the script of a queue.
        options
            As for `theseus.dispatch.submit`: `hosts`, `fresh`, `inventory` and so on.

        Returns
        -------
        theseus.dispatch.DispatchedRun
            With `.state`, `.logs(follow=True)`, `.metrics()`, `.cancel()`, `.fetch()`, `.wait()`.
        """
        spec = self if name is None else self.named(name, project, group)
        if dry_run:
            return importlib.import_module(_REHEARSING).rehearse(spec, **options)
        return importlib.import_module(_SENDING).submit(spec, **options)

    # Comparing and showing

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Combobulation):
            return NotImplemented
        return bool(self._essence() == other._essence())

    def __hash__(self) -> int:
        return hash(self._essence())

    def _essence(self) -> Any:
        return self.job, self.identity, self.resources, _plain.frozen(self.values)

    def __str__(self) -> str:
        return self._card().text()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self._card().html()

    def _repr_mimebundle_(self, **_: Any) -> Any:
        # A notebook shows the hardware widget, with text and HTML beside it; nothing else opens one.
        if "ipykernel" in sys.modules and (plain := sys.modules.get("IPython")):
            shell = plain.get_ipython()
            if getattr(shell, "kernel", None) is not None:
                return importlib.import_module(_SHOWING).bundle(self)
        return {"text/plain": str(self), "text/html": self._repr_html_()}

    def _card(self) -> Card:
        asked = self.resources
        card = Card([self.identity.name, self.job.name])
        card.add("project", f"{self.identity.project}, group {self.identity.group}")
        card.add("chips", _chips_text(asked))
        card.add("nodes", str(asked.nodes) if asked.nodes > 1 else "")
        card.add("cpus", "" if asked.cpus is None else str(asked.cpus))
        card.add("memory", "" if asked.memory is None else size_text(asked.memory))
        card.add("clusters", ", ".join(asked.clusters) or "any")
        card.add("avoid", ", ".join(asked.avoid))
        card.add("sharding", str(asked.sharding))
        if self.changes is None:
            card.add("config", ", ".join(str(group) for group in self.values) or "no keys")
        elif not self.changes:
            card.add("config", "as by default")
        for number, (key, value) in enumerate((self.changes or {}).items()):
            card.add("" if number else "config", f"{key} = {value_text(value)}")
        for number, note in enumerate(self.notes):
            card.add("" if number else "from libthx", note)
        return card


def _chips_text(asked: Resources) -> str:
    kinds = " or ".join(asked.chips)
    if asked.gpus == 0:
        return "none"
    if asked.gpus is None:
        return f"{kinds}, any number" if kinds else "any"
    return f"{kinds} × {asked.gpus}" if kinds else f"{asked.gpus} of any kind"


def identify(name: str, project: str = "general", group: str = "default") -> RunIdentity:
    """Return how a run is called, refusing what cannot be written down."""
    return RunIdentity(_label("name", name), _label("project", project), _label("group", group))


def _label(what: str, text: Any) -> str:
    if not isinstance(text, str) or not text.strip():
        msg = f"the {what} of a run is a text, such as 'train-gpt', not {text!r}"
        raise SpecError(msg)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        msg = f"the {what} {text!r} has a character that cannot be written to a file"
        raise SpecError(msg) from error
    return text
