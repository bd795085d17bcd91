"""The cell `%%theseus`: its first line, and the YAML below it."""

from __future__ import annotations

import keyword
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from omegaconf import DictConfig

from theseus.cli import options
from theseus.cli.call import CallError
from theseus.config import ConfigError, InvalidValueError, describe, load
from theseus.errors import UserError

BODY = 2  # the line of the cell on which the YAML begins
_SHOWN = 8


# The first line

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


@app.command()
def _read(
    job: options.JobKey,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the run.")],
    root: Annotated[
        Path | None,
        typer.Option("--root", help="The folder of data and runs; the last cell's when left out."),
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
    return CellCall(job, name, root, bind, project, group, asked, run, submit, dry_run)


# The lines below


@dataclass(frozen=True)
class Mistake:
    """Something wrong in the YAML; `line` is that of the cell, `column` counts from 0."""

    line: int
    column: int
    message: str


class CellError(UserError):
    """The YAML of a cell has mistakes; `mistakes` has one record for each."""

    def __init__(self, mistakes: list[Mistake], text: str) -> None:
        self.mistakes = mistakes
        lines = text.splitlines()
        parts = []
        for one in mistakes[:_SHOWN]:
            parts.append(f"line {one.line}: {one.message}")
            if 0 <= one.line - BODY < len(lines):
                shown = lines[one.line - BODY].replace("\t", " ")
                parts += [f"    {shown}", f"    {' ' * one.column}^"]
        if len(mistakes) > _SHOWN:
            parts.append(f"and {len(mistakes) - _SHOWN} more")
        super().__init__("\n".join(parts))


def apply(config: DictConfig, text: str) -> None:
    """Set the values that the YAML gives, nested or with dotted keys.

    Raises
    ------
    CellError
        With every mistake at its line; the configuration is then half set, to be thrown away.
    """
    try:
        mistakes = list(_set_all(config, yaml.SafeLoader(text)))
    except yaml.MarkedYAMLError as error:
        mistakes = [_not_yaml(error)]
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        line, column = before.count("\n"), len(before) - before.rfind("\n") - 1
        mistakes = [Mistake(BODY + line, column, f"not YAML: {error.reason}")]
    if mistakes:
        raise CellError(mistakes, text)


def _set_all(config: DictConfig, loader: yaml.SafeLoader) -> Iterator[Mistake]:
    tree = loader.get_single_node()
    if tree is None:
        return
    if not isinstance(tree, yaml.MappingNode):
        yield _at(tree, "expected keys and values, such as `training.tokens: 32_768`")
        return
    keys = {record.key for record in describe(config)}
    groups = {key[:i] for key in keys for i, letter in enumerate(key) if letter == "."}
    seen: dict[str, int] = {}
    yield from _set_below(config, loader, tree, "", groups, seen)


def _set_below(
    config: DictConfig,
    loader: yaml.SafeLoader,
    tree: yaml.MappingNode,
    prefix: str,
    groups: set[str],
    seen: dict[str, int],
) -> Iterator[Mistake]:
    loader.flatten_mapping(tree)  # `<<: *other`
    for key_node, value_node in tree.value:
        if not isinstance(key_node, yaml.ScalarNode):
            yield _at(key_node, "a key is a word")
            continue
        key = prefix + key_node.value.replace("/", ".")
        if key in groups and isinstance(value_node, yaml.MappingNode):
            yield from _set_below(config, loader, value_node, f"{key}.", groups, seen)
            continue
        line = key_node.start_mark.line + BODY
        if key in seen:
            yield _at(key_node, f"{key} is set already, on line {seen[key]}")
            continue
        seen[key] = line
        try:
            _set_one(config, loader, key, value_node)
        except InvalidValueError as error:
            yield _at(value_node, str(error))
        except ConfigError as error:
            yield _at(key_node, str(error))
        except yaml.MarkedYAMLError as error:
            yield _not_yaml(error)


def _set_one(config: DictConfig, loader: yaml.SafeLoader, key: str, node: yaml.Node) -> None:
    value = loader.construct_object(node, deep=True)
    try:
        load(config, {key: value})
    except InvalidValueError as error:
        # YAML takes `on`, `123` and `2024-01-01` for other things than the text that a key wants.
        written = _as_written(node)
        if written == value:
            raise
        try:
            load(config, {key: written})
        except InvalidValueError:
            raise error from None


def _as_written(node: yaml.Node) -> Any:
    if isinstance(node, yaml.SequenceNode):
        return [_as_written(item) for item in node.value]
    if isinstance(node, yaml.MappingNode):
        return {_as_written(key): _as_written(item) for key, item in node.value}
    return node.value


def _at(node: yaml.Node, message: str) -> Mistake:
    return Mistake(node.start_mark.line + BODY, node.start_mark.column, message)


def _not_yaml(error: yaml.MarkedYAMLError) -> Mistake:
    mark = error.problem_mark or error.context_mark
    told = f"not YAML: {error.problem or error.context}"
    return Mistake(mark.line + BODY, mark.column, told) if mark else Mistake(BODY, 0, told)
