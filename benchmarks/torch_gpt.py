"""The same GPT in plain PyTorch, in the manner of nanoGPT: a contender of `benchmarks.train`.

    PYTHON -m benchmarks.torch_gpt '{"vocabulary": 512}'

Learned positions, tied embedding, pre-norm, fused query/key/value, `scaled_dot_product_attention`,
AdamW with decay of matrices, clipping, gradients summed over micro-batches; bfloat16 by autocast.
"""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from benchmarks.serve import serve

DEFAULTS = {
    "layers": 4,
    "width": 128,
    "heads": 2,
    "block": 128,
    "vocabulary": 512,
    "dtype": "float32",
    "accumulation": 2,
    "rows": 4,
    "steps": 10,
}


class Block(nn.Module):
    """One layer."""

    def __init__(self, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        for module in (self.qkv, self.out, self.up, self.down):
            nn.init.normal_(module.weight, std=0.02)
            nn.init.zeros_(module.bias)
        for module in (self.out, self.down):
            nn.init.normal_(module.weight, std=0.02 / (2 * layers) ** 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (B, T, D) to (B, T, D)."""
        rows, length, width = x.shape
        shape = (rows, length, self.heads, width // self.heads)
        q, k, v = (
            part.view(shape).transpose(1, 2) for part in self.qkv(self.norm1(x)).split(width, -1)
        )
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(rows, length, width))
        return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT(nn.Module):
    """The whole model."""

    def __init__(self, spec: dict[str, Any]) -> None:
        super().__init__()
        width = spec["width"]
        self.tokens = nn.Embedding(spec["vocabulary"], width)
        self.positions = nn.Embedding(spec["block"], width)
        self.blocks = nn.ModuleList(
            Block(width, spec["heads"], spec["layers"]) for _ in range(spec["layers"])
        )
        self.norm = nn.LayerNorm(width)
        nn.init.normal_(self.tokens.weight, std=0.02)
        nn.init.normal_(self.positions.weight, std=0.02)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the mean loss of tokens (B, T)."""
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = functional.linear(self.norm(x), self.tokens.weight)
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def main() -> None:
    """Serve steps on one batch."""
    spec = {**DEFAULTS, **json.loads(sys.argv[1])}
    if spec.get("rope"):
        msg = "the PyTorch model has learned positions only"
        raise SystemExit(msg)
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = GPT(spec).to(device)
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=6e-4, betas=(0.9, 0.95), fused=True)
    low = spec["dtype"] == "bfloat16"
    shape = (spec["accumulation"], spec["rows"], spec["block"])
    batches = torch.randint(0, 256, shape).to(device)

    def run(steps: int) -> None:
        for _ in range(steps):
            for tokens in batches:
                precision = torch.autocast(device, torch.bfloat16) if low else nullcontext()
                with precision:
                    loss = model(tokens, tokens) / len(batches)
                loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        loss.item()

    serve(spec["steps"], run)


if __name__ == "__main__":
    main()
