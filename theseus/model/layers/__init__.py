"""The parts that models are made of; they take values, never configuration keys."""
