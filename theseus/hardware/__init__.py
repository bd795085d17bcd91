"""What the machines are: chips, how a model is spread over them, what fits."""
