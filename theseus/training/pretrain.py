"""Training a GPT from its first step."""

from __future__ import annotations

from dataclasses import dataclass

from theseus.config import field
from theseus.model.models import GPT
from theseus.registry import job
from theseus.training.base import BaseTrainer, BaseTrainerConfig
from theseus.training.optimizers import ByName


@dataclass(frozen=True)
class PretrainConfig(BaseTrainerConfig):
    """A trainer whose dataset is chosen by its key."""

    dataset: str = field(
        "data/dataset", default="stdlib", help="whose token files to train on, by key"
    )


@job("gpt/train/pretrain")
class PretrainGPT(BaseTrainer[PretrainConfig, GPT]):
    """Train a GPT from its first step; the defaults are GPT-2 small."""

    MODEL = GPT
    CONFIG = PretrainConfig
    OPTIMIZER = ByName

    def datasets(self) -> str:
        """Return the key that the configuration names."""
        return self.args.dataset
