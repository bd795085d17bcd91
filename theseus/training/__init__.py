"""Training: the loop, its loss, optimizers, schedules and checkpoints."""
