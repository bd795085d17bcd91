"""What a dataset is: a class that yields documents, and declares its own configuration keys.

Map-style datasets know their length and give any item; streaming ones are read from the start.
An item is a text, a conversation, or a pair of answers of which one is better.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, ClassVar, Generic, TypedDict, TypeVar

Item_co = TypeVar("Item_co", covariant=True)


class Message(TypedDict):
    """One turn of a conversation: `role` is `"system"`, `"user"` or `"assistant"`."""

    role: str
    content: str


Conversation = list[Message]


class Pair(TypedDict):
    """Two continuations of the same beginning, as texts or as conversations."""

    chosen: str | Conversation
    rejected: str | Conversation


class Dataset(ABC, Generic[Item_co]):
    """The common part: where the settings come from, and reading on after an interruption.

    A dataset is made inside `configuration(…)` and reads its settings in `__init__` by
    `configure(self.CONFIG)`.
    """

    CONFIG: ClassVar[type | None] = None
    # The fields of CONFIG that say where the text is found, not which text it is: tokens that were
    # made from a local copy serve a trainer that names the hub.
    WHERE: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def check(cls) -> None:
        """Refuse settings that cannot work, without a network and without reading the data.

        Called with the configuration active, before a job that reads this dataset starts.
        """

    def source(self) -> Mapping[str, Any]:
        """Return plain facts that tell this text from another: versions, sizes, digests.

        An interrupted job goes on only when they are unchanged.
        """
        return {}

    @abstractmethod
    def starting_at(self, index: int) -> Iterator[Item_co]:
        """Iterate over the items from the one with this index (0 is the first) on."""


class MapDataset(Dataset[Item_co]):
    """Items that can be reached by index."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of items."""

    @abstractmethod
    def __getitem__(self, index: int) -> Item_co:
        """Return the item with this index."""

    def starting_at(self, index: int) -> Iterator[Item_co]:
        """Iterate from this item on; the items before it are not touched."""
        return (self[number] for number in range(index, len(self)))


class StreamingDataset(Dataset[Item_co]):
    """Items that come in an order of their own, the same order every time."""

    @abstractmethod
    def __iter__(self) -> Iterator[Item_co]:
        """Iterate over all items."""

    def starting_at(self, index: int) -> Iterator[Item_co]:
        """Iterate from this item on; unless a subclass can jump, the ones before are read too."""
        return islice(iter(self), index, None)


class PretrainingDataset(MapDataset[str]):
    """Texts by index."""


class StreamingPretrainingDataset(StreamingDataset[str]):
    """Texts in a stream."""


class ChatTemplateDataset(MapDataset[Conversation]):
    """Conversations by index; the model learns what the assistant says."""


class StreamingChatTemplateDataset(StreamingDataset[Conversation]):
    """Conversations in a stream."""


class ContrastiveDataset(MapDataset[Pair]):
    """Pairs by index: a chosen and a rejected continuation."""


class StreamingContrastiveDataset(StreamingDataset[Pair]):
    """Pairs in a stream."""
