"""The commands for runs that work elsewhere: what each word takes, and whom it calls."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from theseus.cli import options

app = typer.Typer()
hosts_app = typer.Typer(
    help="List the hosts and what is free there; add one, try one.",
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

InventoryFile = Annotated[
    Path | None,
    typer.Option(
        "-d", "--inventory", metavar="FILE", help="The hosts; ~/.theseus.yaml by default."
    ),
]
RunWord = Annotated[
    str, typer.Argument(metavar="RUN", help="A name, an id or the beginning of one, or `latest`.")
]
AsJson = Annotated[bool, typer.Option("--json", help="As JSON.")]
Follow = Annotated[bool, typer.Option("-f", "--follow", help="Show the log until the run ends.")]


@app.command()
def submit(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the run.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A recipe, as YAML.")],
    assignments: options.Assignments = None,
    inventory: InventoryFile = None,
    hosts: Annotated[
        list[str] | None, typer.Option("--host", metavar="HOST", help="Only this one. Repeatable.")
    ] = None,
    project: Annotated[
        str | None, typer.Option("--project", help="Instead of the one in the file.")
    ] = None,
    group: Annotated[
        str | None, typer.Option("--group", help="Instead of the one in the file.")
    ] = None,
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
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Another run, even if the same one exists.")
    ] = False,
    limit: Annotated[
        str | None, typer.Option("--limit", metavar="SIZE", help="How much may be sent: 2G.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be sent, and send nothing.")
    ] = False,
    follow: Follow = False,
    as_json: AsJson = False,
) -> None:
    """Send the recipe in a file to the first host that fits.

    The same submission again finds the run, or starts the next attempt of one that failed.

    For example: theseus submit train-gpt out.yaml
    """
    from theseus.cli import remote

    asked = options.Asked(
        chips or [], gpus, cpus, memory, nodes, clusters or [], avoid or [], tp, fsdp, zero
    )
    spec = remote.recipe(file, assignments or [], name, project, group, asked)
    if dry_run:
        typer.echo(remote.dry_run(spec, inventory, hosts, limit, as_json=as_json))
        return
    run = remote.submit(spec, inventory, hosts, limit, fresh=fresh, quiet=as_json)
    typer.echo(remote.submitted(run, as_json=as_json))
    if follow:
        remote.logs(run.id, follow=True, rank=None, tail=None)


@app.command()
def runs(
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Ask the hosts; otherwise what was last seen.")
    ] = False,
    everything: Annotated[
        bool, typer.Option("-a", "--all", help="Also those that ended over a week ago.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the runs that were submitted from this machine."""
    from theseus.cli import remote

    typer.echo(remote.runs(refresh=refresh, everything=everything, as_json=as_json))


@app.command()
def status(run: RunWord = "latest", as_json: AsJson = False) -> None:
    """Say where a run stands."""
    from theseus.cli import remote

    typer.echo(remote.status(run, as_json=as_json))


@app.command()
def logs(
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="RUN", help="Names or ids; the latest when left out."),
    ] = None,
    follow: Follow = False,
    tail: Annotated[
        int | None, typer.Option("-n", "--tail", metavar="N", help="Begin with the last N lines.")
    ] = None,
    rank: Annotated[
        int | None, typer.Option("--rank", help="Of this node alone; otherwise of all, numbered.")
    ] = None,
) -> None:
    """Show what a run has printed; of several, each line with the run's name before it.

    Stopping this command stops the showing, never the run.
    """
    from theseus.cli import remote

    words = runs or ["latest"]
    if len(words) == 1:
        remote.logs(words[0], follow=follow, rank=rank, tail=tail)
    else:
        remote.several_logs(words, follow=follow, rank=rank, tail=tail)


@app.command()
def watch(
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="RUN", help="Names or ids; the latest when left out."),
    ] = None,
) -> None:
    """Show where runs stand and follow their logs; in a notebook, a card for each.

    Stopping this command stops the showing, never the run.
    """
    from theseus.cli import remote

    remote.watch(runs or ["latest"])


@app.command()
def cancel(run: RunWord, as_json: AsJson = False) -> None:
    """End a run, with everything that it has started."""
    from theseus.cli import remote

    typer.echo(remote.cancel(run, as_json=as_json))


@app.command()
def fetch(
    run: RunWord = "latest",
    to: Annotated[
        Path | None,
        typer.Option("--to", metavar="FOLDER", help="Where to; a folder named after the run."),
    ] = None,
    checkpoints: Annotated[
        bool, typer.Option("--checkpoints", help="With the checkpoints, which may be large.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Bring the records, log and results of a run here."""
    from theseus.cli import remote

    typer.echo(remote.fetch(run, to, checkpoints=checkpoints, as_json=as_json))


@hosts_app.callback()
def hosts(
    context: typer.Context,
    inventory: InventoryFile = None,
    chips: options.Chips = None,
    gpus: options.Gpus = None,
    cached: Annotated[
        bool, typer.Option("--cached", help="What was last seen, at once; nobody is asked.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the hosts and what is free there."""
    context.obj = inventory
    if context.invoked_subcommand is None:
        from theseus.cli import hosts as listing

        asked = options.Asked(chips or [], gpus)
        typer.echo(listing.listed(inventory, asked, cached=cached, as_json=as_json))


@hosts_app.command()
def add(
    context: typer.Context,
    alias: Annotated[str, typer.Argument(metavar="ALIAS", help="What `ssh` reaches it by.")],
    inventory: InventoryFile = None,
    name: Annotated[
        str | None, typer.Option("--name", help="What it is called here; the alias by default.")
    ] = None,
    root: Annotated[str | None, typer.Option("--root", help="Its folder of data and runs.")] = None,
    work: Annotated[str | None, typer.Option("--work", help="Its folder of code.")] = None,
    log: Annotated[str | None, typer.Option("--log", help="Its folder of logs.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Write without asking.")] = False,
) -> None:
    """Look at a host and write its entry into the inventory."""
    from theseus.cli import hosts as listing

    given = inventory or context.obj
    typer.echo(listing.add(alias, given, name=name, root=root, work=work, log=log, yes=yes))


@hosts_app.command(name="test")
def try_host(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A host of the inventory.")],
    inventory: InventoryFile = None,
) -> None:
    """Try the whole way to a host with a tiny job."""
    from theseus.cli import hosts as listing

    listing.test(name, inventory or context.obj)


@hosts_app.command()
def clean(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A host of the inventory.")],
    inventory: InventoryFile = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be deleted, and delete nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete the code and environments on a host that no run needs any more.

    Runs' own folders (logs, checkpoints, results) are never touched.
    """
    from theseus.cli import hosts as listing

    given = inventory or context.obj
    typer.echo(listing.clean(name, given, dry_run=dry_run, yes=yes, as_json=as_json))
