"""What a queue would be given for a run: the SLURM script or the Volcano job, as text; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from theseus.dispatch.inventory import SlurmSettings
from theseus.dispatch.providers.base import Placement
from theseus.dispatch.providers.request import Need, need_of
from theseus.dispatch.remote import Found, folders_of
from theseus.dispatch.secrets import redacted, secrets_in
from theseus.dispatch.shipping import Shipment, Shipping, environment_of

if TYPE_CHECKING:
    from theseus.dispatch.inventory import Host

_MACHINE = "MACHINE"  # its processor's name, which only the host can tell


class _Unasked:
    """In place of a transport: a host that is not asked keeps its `~`."""

    name = "nobody"

    def resolve(self, path: str) -> str:
        """Return the path as the inventory has it."""
        return path


def queued_text(shipment: Shipment, host: Host) -> str:
    """Return what the queue would be given, without secrets; nothing for a host without one.

    What only the cluster can tell is as the inventory has it: the partition is the first of those
    named, a GRES type the one that is mapped to the chip.
    """
    if host.type not in {"slurm", "volcano"}:
        return ""
    need = need_of(shipment.identified.spec.resources)
    placement = _placement(shipment, host, need)
    unasked: object = _Unasked()
    shipping = Shipping(
        shipment,
        host,
        placement,
        unasked,  # type: ignore[arg-type] # it is asked for nothing but paths
        folders_of(host, unasked),  # type: ignore[arg-type]
        environment_of(shipment, host, placement),
        Found(_MACHINE, bundle=False, environment=False, python=None, complaint=""),
    )
    launch = shipping.launch_of(shipping.folder(0), 1, placement)
    if host.type == "slurm":
        from theseus.dispatch.providers.slurm import script_of

        text = script_of(host, launch)
    else:
        import yaml

        from theseus.dispatch.providers.kubectl import settings_of
        from theseus.dispatch.providers.volcano_manifest import job_manifest

        manifest = job_manifest(launch, settings_of(host))
        text = yaml.safe_dump(manifest, sort_keys=False, allow_unicode=True)
    return redacted(text, secrets_in(host.environment))


def _placement(shipment: Shipment, host: Host, need: Need) -> Placement:
    listed = [name for name in host.chips if name != "cpu"]
    chip = next((name for name in need.chips if name in listed), None)
    if need.gpus and chip is None:
        chip = (need.chips or tuple(listed) or (None,))[0]
    settings = host.slurm or SlurmSettings()
    named = settings.partitions if need.gpus else settings.cpu_partitions or settings.partitions
    gres = None
    if need.gpus:
        mapping = shipment.inventory.gres_mapping
        kind = next((spelled for spelled, of in mapping.items() if of == chip), chip)
        gres = ":".join(filter(None, ["gpu", kind if kind != "gpu" else None, str(need.gpus)]))
    slurm = host.type == "slurm"
    return Placement(
        host.name,
        chip,
        need.gpus,
        need.nodes,
        partition=next(iter(named), None) if slurm else None,
        gres=gres if slurm else None,
    )
