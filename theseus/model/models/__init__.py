"""Models whose hooks `embed`, `decode`, `unembed` and `loss` a subclass may override."""

from theseus.model.models.gpt import GPT

__all__ = ["GPT"]
