"""Words → calls: the command line."""
