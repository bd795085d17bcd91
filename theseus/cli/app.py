"""The commands: what each word takes, and whom it calls.

Kept free of logic. What a command needs is imported inside it, so that `theseus --help` and
`theseus jobs` start at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import theseus
from theseus.cli import about, dispatching, options

app = typer.Typer(
    name="theseus",
    help="Train JAX language models, here or elsewhere.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"theseus {theseus.__version__}")
        raise typer.Exit


@app.callback()
def start(
    scripts: Annotated[
        list[Path] | None,
        typer.Option(
            "--import",
            metavar="SCRIPT",
            help="Run this script first, as a module, so that its jobs are known. Repeatable.",
        ),
    ] = None,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Say the version and end."
        ),
    ] = False,
) -> None:
    """Train JAX language models, here or elsewhere."""
    del version  # its callback has answered
    if scripts:
        from theseus.cli.scripts import import_script

        for script in scripts:
            import_script(script)


@app.command()
def jobs(
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="JOB", help="Only these, or all under `a/`.")
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="With the configuration keys of each job.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """List the jobs that can be run."""
    from theseus.cli import listing

    typer.echo(listing.jobs(keys or [], verbose=verbose, as_json=as_json))


@app.command()
def configure(
    job: options.JobKey,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write it, as YAML.")],
    assignments: options.Assignments = None,
    name: Annotated[
        str | None, typer.Option("--name", help="The name of the run; the job's key by default.")
    ] = None,
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
    force: Annotated[
        bool, typer.Option("--force", help="Replace a file that says something else.")
    ] = False,
) -> None:
    """Write the recipe of a job to a file.

    For example: theseus configure gpt/train/pretrain out.yaml training.tokens=32_768
    """
    from theseus.cli import recipes

    asked = options.Asked(
        chips or [], gpus, cpus, memory, nodes, clusters or [], avoid or [], tp, fsdp, zero
    )
    spec = recipes.configured(job, name or job, project, group, assignments or [], asked)
    typer.echo(recipes.write(spec, file, force=force))


@app.command()
def run(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the run.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A recipe, as YAML.")],
    root: Annotated[Path, typer.Argument(metavar="ROOT", help="The folder of data and runs.")],
    assignments: options.Assignments = None,
    project: Annotated[
        str | None, typer.Option("--project", help="Instead of the one in the file.")
    ] = None,
    group: Annotated[
        str | None, typer.Option("--group", help="Instead of the one in the file.")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="A new run, even if the same one exists.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Say how it ended as JSON.")] = False,
) -> None:
    """Run the recipe in a file, here and now.

    For example: theseus run train-gpt out.yaml ~/theseus
    """
    from theseus.cli import recipes

    told = recipes.run(
        file,
        root,
        assignments or [],
        name=name,
        project=project,
        group=group,
        fresh=fresh,
        as_json=as_json,
    )
    if told:
        typer.echo(told)


app.registered_commands += dispatching.app.registered_commands
app.add_typer(dispatching.hosts_app, name="hosts")
app.registered_commands += about.app.registered_commands
