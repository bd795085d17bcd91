"""Options that several commands and the cell magic share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from theseus.combobulation import Combobulation

JobKey = Annotated[str, typer.Argument(metavar="JOB", help="A key that `theseus jobs` lists.")]
Assignments = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=VALUE", help="Configuration values."),
]
Project = Annotated[str, typer.Option("--project", help="What the run belongs to.")]
Group = Annotated[str, typer.Option("--group", help="What it belongs to within the project.")]
Chips = Annotated[
    list[str] | None, typer.Option("--chip", metavar="CHIP", help="An acceptable chip. Repeatable.")
]
Gpus = Annotated[int | None, typer.Option("--gpus", help="How many chips in all.")]
Cpus = Annotated[int | None, typer.Option("--cpus", help="Processor cores per node.")]
Memory = Annotated[
    str | None, typer.Option("--memory", metavar="SIZE", help="Main memory per node: 64G.")
]
Nodes = Annotated[int | None, typer.Option("--nodes", help="How many machines to spread over.")]
Clusters = Annotated[
    list[str] | None,
    typer.Option("--cluster", metavar="CLUSTER", help="Use this cluster only. Repeatable."),
]
Avoid = Annotated[
    list[str] | None,
    typer.Option("--avoid", metavar="CLUSTER", help="Do not use this cluster. Repeatable."),
]
TensorParallel = Annotated[
    int | None, typer.Option("--tp", help="Tensor parallelism: chips that share a layer.")
]
Fsdp = Annotated[bool, typer.Option("--fsdp", help="Spread parameters over the data axis.")]
Zero = Annotated[bool, typer.Option("--zero", help="Spread the optimizer state over it.")]


@dataclass(frozen=True)
class Asked:
    """The resources that a call asked for; what it left out says nothing."""

    chips: list[str] = field(default_factory=list)
    gpus: int | None = None
    cpus: int | None = None
    memory: str | None = None
    nodes: int | None = None
    clusters: list[str] = field(default_factory=list)
    avoid: list[str] = field(default_factory=list)
    tp: int | None = None
    fsdp: bool = False
    zero: bool = False

    def __bool__(self) -> bool:
        return self != Asked()

    def applied(self, spec: Combobulation) -> Combobulation:
        """Return `spec` with these resources added."""
        if self.chips:
            spec = spec.chip(*self.chips)
        if self.gpus is not None:
            spec = spec.gpu(self.gpus)
        if self.cpus is not None:
            spec = spec.cpu(self.cpus)
        if self.memory is not None:
            spec = spec.memory(self.memory)
        if self.nodes is not None:
            spec = spec.nodes(self.nodes)
        if self.clusters:
            spec = spec.cluster(*self.clusters)
        if self.avoid:
            spec = spec.avoid(*self.avoid)
        return spec.shard(self.tp, fsdp=self.fsdp or None, zero=self.zero or None)
