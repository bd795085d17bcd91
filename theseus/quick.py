"""The recipe: choose a job, set its keys, run it here or send it elsewhere.

    with quick("~/theseus") as q:            # or, in notebook cells: q = init("~/theseus")
        q.build("gpt/train/pretrain", "train-gpt")
        q.config.architecture.n_embd = 128
        q.create()()

The configuration belongs to the `QuickJob`, not to a context variable, so that it is there in the
next cell, in a thread and after a top-level `await`.
"""

from __future__ import annotations

import copy
import importlib
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from theseus import config as configuration
from theseus import registry
from theseus._summary import Card, value_text
from theseus.code import JobReference, job_class
from theseus.combobulation import Combobulation, identify
from theseus.errors import UserError
from theseus.hardware.resources import Resources
from theseus.hardware.sharding import ShardingPolicy

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from theseus.job import Job, OpenRun, RunIdentity
    from theseus.lineage import SavedStates

# A recipe shows itself as a form where one can be seen; the rooms below are not imported before.
_AUDIENCE, _FORM = "theseus.notebook.audience", "theseus.notebook.form"


class QuickError(UserError):
    """Something was asked of a recipe that it cannot do yet, or ever."""


class QuickJob:
    """A job, its name and its configuration, in a root folder. Made by `quick` or `init`."""

    # Without a `__dict__` a misspelt attribute is an error, also when it is assigned to.
    __slots__ = ("__weakref__", "_config", "_identity", "_job_class", "_root", "_sharding")

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._root = _absolute(root)
        self._job_class: type[Job] | None = None
        self._identity: RunIdentity | None = None
        self._config: DictConfig | None = None
        self._sharding = ShardingPolicy()

    def build(
        self,
        job: str | type[Job],
        name: str,
        project: str = "general",
        group: str = "default",
    ) -> QuickJob:
        """Choose the job and start from its defaults.

        Parameters
        ----------
        job
            The key of a registered job (`theseus jobs` lists them), or its class.
        name, project, group
            How the run is called: free text, shown as written.

        Returns
        -------
        QuickJob
            This one. Values that were set before are gone: a cell that is run again starts anew.
        """
        chosen = job_class(registry.find("job", job) if isinstance(job, str) else job)
        self._sharding = ShardingPolicy()
        self._take(chosen, identify(name, project, group), configuration.build(*chosen.configs()))
        return self

    def _take(self, chosen: type[Job], identity: RunIdentity, config: DictConfig) -> None:
        self._job_class, self._identity, self._config = chosen, identity, config
        for other in list(_open):
            if other is not self and other._essence() == self._essence():
                # The cell was run again; the notebook's output history keeps the old one alive.
                other.close()

    def shard(
        self, tp: int | None = None, *, fsdp: bool | None = None, zero: bool | None = None
    ) -> QuickJob:
        """Choose how the model is spread over devices; what is left out stays as it is.

        Parameters
        ----------
        tp
            Tensor parallelism: how many devices share one copy of each layer.
        fsdp
            Whether parameters, gradients and optimizer state are spread over the others.
        zero
            Whether gradients and optimizer state are, and parameters are not (ZeRO).
        """
        self._sharding = self._sharding.changed(tp=tp, fsdp=fsdp, zero=zero)
        return self

    @property
    def sharding(self) -> ShardingPolicy:
        """How the model is spread over devices, as `shard` chose."""
        return self._sharding

    @property
    def root(self) -> Path:
        """The folder of data and runs."""
        return self._root

    @property
    def config(self) -> DictConfig:
        """The configuration: typed, with unknown keys refused."""
        if self._config is None:
            self._not_built("config")
        return self._config

    @config.setter
    def config(self, _: object) -> NoReturn:
        msg = (
            "q.config is not replaced as a whole, so that its types and checks stay; set its keys "
            "(`q.config.training.tokens = 32_768`), or many at once with "
            "`theseus.config.load(q.config, {…})`"
        )
        raise QuickError(msg)

    @property
    def has_config(self) -> bool:
        """Whether a job has been chosen with `build`."""
        return self._config is not None

    @property
    def job_class(self) -> type[Job]:
        """The class of the job."""
        if self._job_class is None:
            self._not_built("job_class")
        return self._job_class

    @property
    def job(self) -> str:
        """The key of the job, or the path of its class when it has none."""
        found = self.job_class
        return registry.key_of("job", found) or f"{found.__module__}:{found.__qualname__}"

    @property
    def identity(self) -> RunIdentity:
        """The name, project and group of the run."""
        if self._identity is None:
            self._not_built("identity")
        return self._identity

    @property
    def name(self) -> str:
        """The name of the run, as written."""
        return self.identity.name

    def create(self, *, open_run: OpenRun | None = None) -> Job:
        """Return the job as the configuration is now; `job()` runs it here.

        Parameters
        ----------
        open_run
            What keeps the record of the run; a folder under the root when left out.
        """
        if open_run is None:
            from theseus import runs

            open_run = runs.open_run
        return self.job_class(
            copy.deepcopy(self.config),
            root=self._root,
            identity=self.identity,
            open_run=open_run,
            sharding=self._sharding,
        )

    def spec(self) -> Combobulation:
        """Return the recipe as it is now, to which resources can be added."""
        return Combobulation(
            JobReference.of(self.job_class),
            self.identity,
            configuration.to_plain(self.config),
            Resources(sharding=self._sharding),
            changes=configuration.changed(self.config),
        )

    def find(
        self,
        name: str | None = None,
        *,
        project: str | None = None,
        group: str | None = None,
        job: str | None = None,
    ) -> SavedStates:
        """Return the checkpoints under this root, the newest run first.

        Each has `.resume()`, which goes on with its run, and `.branch(name)`, which starts another
        run from its state.

        Parameters
        ----------
        name, project, group, job
            Only those of runs that are called exactly so; None: all.
        """
        from theseus.lineage import find

        return find(self._root, name, project=project, group=group, job=job)

    def submit(self, **options: Any) -> Any:
        """Send the recipe to the first host that fits, and return the run as soon as it is launched.

        For chips and the like: `q.spec().chip("h100").gpu(4).submit()`. With no inventory it runs
        on this machine, in this root, and leaves this process free.

        Parameters
        ----------
        options
            As for `theseus.dispatch.submit`: `hosts`, `fresh`, `inventory` and so on.
        """
        return self.spec().submit(root=self._root, **options)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the recipe to a YAML file."""
        self.spec().save(Path(path))

    def close(self) -> None:
        """Let `configure` no longer find this configuration by itself; `q` stays usable."""
        _open.discard(self)
        configuration.unregister_session(self)

    def _not_built(self, what: str) -> NoReturn:
        msg = f"q.{what} is there after q.build(job, name), for example "
        raise QuickError(msg + 'q.build("gpt/train/pretrain", "train-gpt")')

    def _essence(self) -> tuple[object, ...]:
        return self._root, self._identity, self.job if self._job_class else None

    def __str__(self) -> str:
        if self._identity is None:
            return f"an empty recipe in {self._root}"
        return f"'{self.name}' ({self.job}) in {self._root}"

    def __repr__(self) -> str:
        return self._card().text()

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        if self.has_config and importlib.import_module(_AUDIENCE).live():
            shown: tuple[dict[str, Any], dict[str, Any]]
            shown = importlib.import_module(_FORM).bundle_of(self)
            return shown
        card = self._card()
        return {"text/plain": card.text(), "text/html": card.html()}, {}

    def _repr_html_(self) -> str:
        return self._card().html()

    def _card(self) -> Card:
        if self._identity is None or self._config is None:
            card = Card(["no job yet", f"root {self._root}"])
            card.add("next", 'q.build("gpt/train/pretrain", "train-gpt")')
            return card
        records = configuration.describe(self._config)
        by_key = {record.key: record for record in records}
        changed = configuration.changed(self._config)
        card = Card([self.name, self.job, f"root {self._root}"])
        card.add("project", f"{self._identity.project}, group {self._identity.group}")
        card.add("sharding", "" if self._sharding == ShardingPolicy() else str(self._sharding))
        card.add("config", f"{len(records)} keys, {len(changed)} changed")
        for key, value in changed.items():
            default = by_key[key].default
            was = "" if default is configuration.MISSING else f"default {value_text(default)}"
            card.add("", key, value_text(value), was)
        missing = [
            record
            for record in records
            if record.value is configuration.MISSING and record.key not in changed
        ]
        for number, record in enumerate(missing):
            owners = ", ".join(record.owners)
            why = record.help or f"wanted by {owners}"
            card.add("" if number else "missing", record.key, record.type, why)
        return card


@contextmanager
def quick(root: str | os.PathLike[str]) -> Iterator[QuickJob]:
    """Open a recipe in `root` for the length of a `with` block.

    Parameters
    ----------
    root
        The folder of data and runs; `~` is your home.
    """
    session = init(root)
    try:
        yield session
    finally:
        session.close()


def init(root: str | os.PathLike[str]) -> QuickJob:
    """Open a recipe in `root` that stays open: made for notebook cells.

    Parameters
    ----------
    root
        The folder of data and runs; `~` is your home.
    """
    session = QuickJob(root)
    _open.add(session)
    configuration.register_session(session)
    return session


def open_spec(spec: Combobulation, root: str | os.PathLike[str]) -> QuickJob:
    """Return a saved recipe as a `QuickJob`; the job's class is imported, or unpickled, now."""
    session = QuickJob(root)
    chosen = spec.job.load()
    config = configuration.build(*chosen.configs())
    configuration.load(config, spec.config)
    session._take(chosen, spec.identity, config)
    session._sharding = spec.resources.sharding
    return session


_open: weakref.WeakSet[QuickJob] = weakref.WeakSet()


def _absolute(root: Any) -> Path:
    if not isinstance(root, str | os.PathLike) or not str(root).strip():
        msg = f"root: the folder of data and runs, such as '~/theseus', not {root!r}"
        raise QuickError(msg)
    try:
        # Not resolved: on a cluster the path as written may be the one that every node knows.
        folder = Path(os.path.abspath(Path(root).expanduser()))  # noqa: PTH100
    except RuntimeError as error:
        msg = f"root: {root!s}: {error}"
        raise QuickError(msg) from error
    if folder.exists() and not folder.is_dir():
        msg = f"root: {folder} is a file; data and runs need a folder"
        raise QuickError(msg)
    return folder
