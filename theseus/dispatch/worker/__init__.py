"""What runs on the other side: the worker of a run, and how it begins."""
