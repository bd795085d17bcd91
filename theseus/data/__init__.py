"""Text → token files → batches. This room knows no model."""
