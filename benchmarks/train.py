"""The trainer beside a hand-written loop, PyTorch and libthx: speed, start, memory, compilation.

    python -m benchmarks.train --parts speed --vocabulary 512 --dtype float32
    python -m benchmarks.train --peer PYTHON --torch PYTHON --json results.json

Every contender is a process of its own that stays alive, compiled and warm, and runs a stretch of
steps when it is told to. They take turns, so that what else the machine does meets all of them;
ratios are formed within a turn, and their median and quartiles are printed. See benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.turns import (
    REPOSITORY,
    Contender,
    both,
    compared,
    per_step,
    ratios,
    running,
    shown,
    take_turns,
)

MIB = 2**20
LARGE = 10_000  # a vocabulary from which a step takes so long that few make a stretch

# A tokenizer that libthx can have without a download: a byte for a token.
PLUGIN = """
def plain_bytes():
    ranks = {bytes([n]): n for n in range(256)}
    special = {"<|endoftext|>": 256}
    pattern = r"[\\s\\S]"
    return dict(name="plain_bytes", pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)
ENCODING_CONSTRUCTORS = {"plain_bytes": plain_bytes}
"""


class Bench:
    """What the parts share: options, a root with tokens, and the results."""

    def __init__(self, options: argparse.Namespace, root: Path) -> None:
        self.options, self.root = options, root
        self.results: list[dict[str, Any]] = []

    def spec(self, **changes: Any) -> dict[str, Any]:
        """Return the model and batch of the options, with changes."""
        options = self.options
        names = ("layers", "width", "heads", "block", "accumulation", "rows")
        return {"root": str(self.root), **{n: getattr(options, n) for n in names}, **changes}

    def ours(self, kind: str, name: str | None = None, **changes: Any) -> Contender:
        """Return a contender of this environment (`benchmarks.contenders`)."""
        spec = json.dumps(self.spec(**changes))
        command = [sys.executable, "-m", "benchmarks.contenders", kind, spec]
        return Contender(name or kind, command, {"PYTHONPATH": str(REPOSITORY)})

    def torch(self, **changes: Any) -> Contender:
        """Return the PyTorch contender."""
        spec = json.dumps(self.spec(**changes))
        command = [self.options.torch, "-m", "benchmarks.torch_gpt", spec]
        return Contender("torch", command, {"PYTHONPATH": str(REPOSITORY)})

    def peer(self, what: str = "train", **changes: Any) -> Contender:
        """Return libthx, in its own environment and at its own number of heads."""
        theirs = self.spec(**changes, root=str(self.root / "peer"), heads=self.options.peer_heads)
        # -P: this folder holds a file that is called like a module of the standard library.
        script = str(REPOSITORY / "benchmarks" / "libthx_peer.py")
        command = [self.options.peer, "-P", script, what, json.dumps(theirs)]
        return Contender("libthx", command, {"PYTHONPATH": str(self.root / "plugins")})

    def add(self, part: str, **facts: Any) -> None:
        """Keep a result for `--json`."""
        self.results.append({"part": part, **facts})


# Parts


def speed(bench: Bench) -> None:
    """Tokens per second of all contenders, for each dtype and vocabulary."""
    options = bench.options
    tokens = options.accumulation * options.rows * options.block
    for dtype in options.dtype:
        for vocabulary in options.vocabulary:
            steps = options.steps or (2 if vocabulary >= LARGE else 5)
            model = {"dtype": dtype, "vocabulary": vocabulary, "steps": steps, "interval": steps}
            trainer = bench.ours("trainer", f"trainer, {options.heads} heads", **model)
            pairs = [(trainer, other) for other in others(bench, model)]
            if options.peer and "libthx" in options.against:
                alike = {**model, "heads": options.peer_heads, "rope": True}
                peer = bench.peer(**{k: v for k, v in alike.items() if k != "heads"})
                same = bench.ours("trainer", f"trainer, {options.peer_heads} heads, rope", **alike)
                pairs += [(same, peer), (trainer, peer)]
            # Each once, in the order in which they were named.
            contenders = list({id(c): c for pair in pairs for c in pair}.values())
            with running(contenders):
                take_turns(contenders, options.pairs)
            print(f"\n{dtype}, vocabulary {vocabulary:,}; {options.pairs} turns of {steps} steps")
            for contender in contenders:
                rate = tokens / statistics.median(per_step(contender))
                peak = contender.answers[-1]["peak"] / MIB
                print(f"  {contender.name:28} {rate:9,.0f} tokens/s   peak {peak:6,.0f} MiB")
                bench.add("speed", **model, name=contender.name, tokens_per_s=rate, peak_mib=peak)
            for one, other in pairs:
                ratio = compared(one, other)
                print(f"  {one.name} / {other.name}: {both(ratio)}")
                bench.add("ratio", **model, first=one.name, second=other.name, ratio=ratio)


def others(bench: Bench, model: dict[str, Any]) -> list[Contender]:
    """Return who the trainer is compared with at its own number of heads."""
    against = bench.options.against
    found = [bench.ours("minimal", **model)] if "minimal" in against else []
    if bench.options.torch and "torch" in against:
        found.append(bench.torch(**model))
    return found


def start(bench: Bench) -> None:
    """From the start of a process to its first finished step, through `quick`."""
    makers: list[Callable[[], Contender]] = [
        lambda: bench.ours("trainer", "trainer", steps=1, interval=1)
    ]
    if bench.options.peer:
        makers.append(lambda: bench.peer(steps=1))
    times: dict[str, list[float]] = {}
    for turn in range(bench.options.pairs):
        for make in makers if turn % 2 == 0 else reversed(makers):
            contender = make()
            contender.start()
            times.setdefault(contender.name, []).append(contender.ready())
            contender.close()
    print("\nFrom process start to the first finished step")
    for name, found in times.items():
        print(f"  {name:28} {statistics.median(found):6.2f} s [{min(found):.2f}–{max(found):.2f}]")
        bench.add("start", name=name, seconds=found)
    if bench.options.peer:
        ratio = ratios(times["libthx"], times["trainer"])
        print(f"  trainer / libthx: {shown(ratio)}")
        bench.add("start ratio", ratio=ratio)


def loop(bench: Bench) -> None:
    """The whole loop (token files, metrics, progress) beside its compiled step."""
    steps = bench.options.steps or 10
    whole = bench.ours("trainer", "whole loop", steps=steps)
    bare = bench.ours("step", "bare step", steps=steps)
    with running([whole, bare]):
        take_turns([whole, bare], 2 * bench.options.pairs)
    ratio = compared(bare, whole)
    print(f"\nWhole loop / bare step, time: {both(ratio)}")
    for contender in (whole, bare):
        seconds = statistics.median(per_step(contender))
        print(f"  {contender.name:28} {seconds * 1e3:7.1f} ms per step")
    bench.add("loop", ratio=ratio)


def growth(bench: Bench) -> None:
    """Resident memory over a long run."""
    steps = 50
    trainer = bench.ours("trainer", steps=steps)
    with running([trainer]):
        take_turns([trainer], bench.options.growth_steps // steps)
    sizes = [answer["rss"] / MIB for answer in trainer.answers]
    later = sizes[len(sizes) // 2 :]  # the allocator settles over some thousand steps
    slope = statistics.linear_regression(range(len(later)), later).slope / steps * 1000
    print(f"\nMemory over {bench.options.growth_steps} steps: {sizes[0]:.0f} → {sizes[-1]:.0f} MiB")
    print(f"  slope {slope:+.2f} MiB per 1,000 steps")
    bench.add("growth", slope_mib_per_1000=slope, sizes_mib=sizes)


def compilation(bench: Bench) -> None:
    """Tracing and compiling 32 layers beside 4."""
    compiler = bench.ours("compilations")
    times: dict[int, list[float]] = {4: [], 32: []}
    with running([compiler]):
        for turn in range(bench.options.pairs):
            for layers in (4, 32) if turn % 2 == 0 else (32, 4):
                times[layers].append(compiler.ask(json.dumps({"layers": layers}))["seconds"])
    ratio = ratios(times[4], times[32])
    print(f"\nCompile time, 32 layers / 4: {shown(ratio)}")
    for layers, found in times.items():
        print(f"  {layers:2} layers {statistics.median(found):28.2f} s")
    bench.add("compilation", ratio=ratio, seconds=times)


def remat(bench: Bench) -> None:
    """Memory of a step of 12 layers by remat policy, as the compiler tells it.

    16 rows, so that the state, which no policy makes smaller, is a small part.
    """
    compiler = bench.ours("compilations", layers=12, block=512, vocabulary=512, rows=16)
    print("\nMemory of a step of 12 layers, block 512, 16 rows (compiler)")
    with running([compiler]):
        found = {p: compiler.ask(json.dumps({"remat": p})) for p in ("none", "dots", "block")}
    for policy, memory in found.items():
        temporary, total = memory["temporary"] / MIB, memory["total"] / MIB
        share = memory["temporary"] / found["none"]["temporary"]
        whole = memory["total"] / found["none"]["total"]
        print(
            f"  {policy:6} temporary {temporary:8.1f} MiB ({share:.3f} ×), "
            f"with the state {total:8.1f} MiB ({whole:.3f} ×)"
        )
        bench.add("remat", policy=policy, temporary_mib=temporary, total_mib=total)


PARTS: dict[str, Callable[[Bench], None]] = {
    "speed": speed,
    "start": start,
    "loop": loop,
    "growth": growth,
    "compile": compilation,
    "remat": remat,
}


def write_tokens(root: Path) -> None:
    """Give the trainer a dataset: numbers as text, a byte for a token."""
    import random

    from theseus.quick import quick

    draw = random.Random(0)
    texts = root / "texts"
    texts.mkdir()
    for number in range(20):
        (texts / f"{number}.txt").write_text(
            " ".join(str(draw.randrange(1000)) for _ in range(10**4))
        )
    with quick(root) as q:
        q.build("data/tokenize/text", "tokens")
        q.config.data.text.files = [f"{texts}/*.txt"]
        q.create()()


def write_peer_tokens(bench: Bench) -> None:
    """Give libthx the same kind of dataset, in a root of its own."""
    (bench.root / "peer").mkdir()
    plugin = bench.root / "plugins" / "tiktoken_ext" / "plain_bytes.py"
    plugin.parent.mkdir(parents=True)
    plugin.write_text(PLUGIN)
    peer = bench.peer("prepare")
    environment = {**os.environ, **peer.environment}
    subprocess.run(peer.command, check=True, env=environment, capture_output=True)


def main() -> None:
    """Run the chosen parts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--dtype", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--vocabulary", nargs="+", type=int, default=[512, 50_304, 100_288])
    parser.add_argument("--pairs", type=int, default=15, help="turns of which the median is taken")
    names = ["minimal", "torch", "libthx"]
    parser.add_argument("--against", nargs="+", choices=names, default=names)
    parser.add_argument("--steps", type=int, help="steps of one turn")
    parser.add_argument("--growth-steps", type=int, default=2000)
    parser.add_argument("--peer", metavar="PYTHON", help="the Python that has libthx 0.4.0")
    parser.add_argument("--torch", metavar="PYTHON", help="a Python that has torch")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all results to FILE")
    sizes = {"layers": 4, "width": 128, "heads": 2, "block": 128, "accumulation": 2, "rows": 4}
    for name, size in {**sizes, "peer-heads": 16}.items():
        parser.add_argument(f"--{name}", type=int, default=size)
    options = parser.parse_args()
    os.environ.setdefault("THESEUS_PROGRESS", "plain")
    with tempfile.TemporaryDirectory(prefix="theseus-benchmark-") as folder:
        bench = Bench(options, Path(folder))
        write_tokens(bench.root)
        if options.peer:
            write_peer_tokens(bench)
        for part in options.parts:
            PARTS[part](bench)
    if options.json:
        options.json.write_text(json.dumps(bench.results, indent=1))


if __name__ == "__main__":
    main()
