"""Datasets: what text a model reads. Importing this loads no library that is slow to import."""

from theseus.data.datasets.base import (
    ChatTemplateDataset,
    ContrastiveDataset,
    Conversation,
    Dataset,
    MapDataset,
    Message,
    Pair,
    PretrainingDataset,
    StreamingChatTemplateDataset,
    StreamingContrastiveDataset,
    StreamingDataset,
    StreamingPretrainingDataset,
)
from theseus.data.datasets.fineweb import FineWeb
from theseus.data.datasets.hub import Hub
from theseus.data.datasets.sampling import Sampling, Style
from theseus.data.datasets.stdlib import StdLib
from theseus.data.datasets.text import Text

__all__ = [
    "ChatTemplateDataset",
    "ContrastiveDataset",
    "Conversation",
    "Dataset",
    "FineWeb",
    "Hub",
    "MapDataset",
    "Message",
    "Pair",
    "PretrainingDataset",
    "Sampling",
    "StdLib",
    "StreamingChatTemplateDataset",
    "StreamingContrastiveDataset",
    "StreamingDataset",
    "StreamingPretrainingDataset",
    "Style",
    "Text",
]
