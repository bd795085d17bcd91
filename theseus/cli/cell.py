"""The first line of a cell `%%theseus`: what it takes, read as the command line reads its words."""

from __future__ import annotations

import keyword
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from theseus.cli import options
from theseus.cli.call import CallError

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@dataclass(frozen=True)
class CellCall:
    """What the first line of a cell asks for."""

    job: str
    name: str
    root: Path | None
    bind: str
    project: str
    group: str
    asked: options.Asked
    run: bool
    submit: bool
    dry_run: bool
    expand: bool


@app.command()
def _read(
    job: options.JobKey,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the run.")],
    root: Annotated[
        Path | None,
        typer.Option(
            "--root",
            metavar="FOLDER",
            help="The folder of data and runs; the last cell's when left out.",
        ),
    ] = None,
    bind: Annotated[
        str, typer.Option("--as", metavar="NAME", help="The variable to bind the recipe to.")
    ] = "q",
    project: options.Project = "general",
    group: options.Group = "default",
    chips: options.Chips = None,
    gpus: options.Gpus = None,
    cpus: options.Cpus = None,
    memory: options.Memory = None,
    nodes: options.Nodes = None,
    clusters: options.Clusters = None,
    avoid: options.Avoid = None,
    tp: options.TensorParallel = None,
    fsdp: options.Fsdp = False,
    zero: options.Zero = False,
    expand: Annotated[
        bool, typer.Option("--expand", help="Take `${{…}}` below as values from Python.")
    ] = False,
    run: Annotated[bool, typer.Option("--run", help="Run it here and now.")] = False,
    submit: Annotated[
        bool, typer.Option("--submit", help="Send it to the first host that fits.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what --submit would send.")
    ] = False,
) -> CellCall:
    """Build a job from the YAML below, bind it to `q` and show it.

    The lines below are configuration, nested or with dotted keys, for example
    training.tokens: 32_768
    """
    if not bind.isidentifier() or keyword.iskeyword(bind):
        msg = f"--as: '{bind}' cannot be the name of a variable"
        raise CallError(msg)
    if run + submit + dry_run > 1:
        raise CallError("one of --run, --submit and --dry-run at a time")
    asked = options.Asked(
        chips or [], gpus, cpus, memory, nodes, clusters or [], avoid or [], tp, fsdp, zero
    )
    return CellCall(job, name, root, bind, project, group, asked, run, submit, dry_run, expand)
