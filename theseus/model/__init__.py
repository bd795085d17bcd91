"""Flax modules: layers, and models with hooks that a subclass overrides."""
