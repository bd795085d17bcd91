"""What is measured on a model, and text that it writes."""

from theseus.evaluation.generate import generate
from theseus.evaluation.perplexity import Perplexity

__all__ = ["Perplexity", "generate"]
