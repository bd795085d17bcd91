"""What shows in a notebook."""
