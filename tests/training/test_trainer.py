"""What a training run must hold, from its files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theseus.config import ConfigError, field
from theseus.data.datasets import Sampling
from theseus.errors import UserError
from theseus.evaluation import Perplexity, generate
from theseus.model.models import GPT
from theseus.training import base, loop
from theseus.training.base import BaseTrainer, BaseTrainerConfig
from theseus.training.optimizers import AdamW, matrices
from theseus.training.state import boxed_parameters

Make = Callable[..., Any]


class BrokenDiskError(Exception):
    """Stands for anything that ends a run between two steps."""


def break_at(trainer: Any, step: int) -> None:
    """Let the data of a step fail to load."""
    batch = trainer.mixture.batch

    def fail(at: int, *args: Any) -> Any:
        if at == step:
            raise BrokenDiskError
        return batch(at, *args)

    trainer.mixture.batch = fail


def losses(run: Any) -> list[tuple[int, float]]:
    return [(m["step"], m["train/loss"]) for m in run.metrics() if "train/loss" in m]


def test_a_resumed_run_is_bit_equal_to_an_uninterrupted_one(trainer: Make) -> None:
    """40 steps at once, and 20 and 20 with a break between; dropout on, accumulation 2."""
    whole = trainer(name="whole", architecture__dropout=0.1)
    straight = whole()

    broken = trainer(name="broken", architecture__dropout=0.1)
    break_at(broken, 25)
    with pytest.raises(BrokenDiskError):
        broken()
    again = trainer(name="broken", architecture__dropout=0.1)
    resumed = again()

    assert [step for step, _ in losses(resumed)] == list(range(1, 41))
    assert losses(resumed) == losses(straight)
    assert jax.tree.all(jax.tree.map(lambda a, b: bool((a == b).all()), whole.params, again.params))


def test_the_loss_falls_and_generation_follows_the_text(trainer: Make) -> None:
    made = trainer(training__tokens=200 * 8 * 32)
    run = made()
    first, last = losses(run)[0][1], losses(run)[-1][1]
    assert abs(first - np.log(257)) < 0.3
    assert last < 2.0
    text = generate(made, "document 1", max_new_tokens=12, temperature=0)
    assert text.startswith("document 1")
    assert "count" in generate(made, "document 12 ", max_new_tokens=12, temperature=0)


def test_a_finished_run_is_shown_again_and_keeps_its_parameters(trainer: Make) -> None:
    first = trainer()
    first()
    again = trainer()
    run = again()
    assert run.state == "finished"
    assert [m["step"] for m in run.metrics()][-1] == 40
    assert jax.tree.all(jax.tree.map(lambda a, b: bool((a == b).all()), first.params, again.params))


def test_the_first_loss_is_that_of_the_first_rows(trainer: Make) -> None:
    made = trainer()
    run = made()
    params = nn.meta.unbox(boxed_parameters(made.model, 0, 32))
    batch = made.mixture.batch(0)
    logits = np.asarray(jax.jit(made.model.apply)({"params": params}, batch.tokens), np.float64)
    picked = np.take_along_axis(logits, batch.targets[..., None], -1)[..., 0]
    nll = np.log(np.exp(logits).sum(-1)) - picked
    expected = (nll * batch.weights).sum() / batch.weights.sum()
    assert losses(run)[0][1] == pytest.approx(expected, rel=1e-5)


def test_validation_is_the_mean_over_all_held_out_targets_without_dropout(trainer: Make) -> None:
    made = trainer(training__validation=True, architecture__dropout=0.3)
    run = made()
    (found,) = [m["val/loss"] for m in run.metrics() if "val/loss" in m]
    total = count = 0.0
    for batch in made.mixture.validation(4):
        logits = np.asarray(
            jax.jit(made.model.apply)({"params": made.params}, batch.tokens), np.float64
        )
        picked = np.take_along_axis(logits, batch.targets[..., None], -1)[..., 0]
        total += ((np.log(np.exp(logits).sum(-1)) - picked) * batch.weights).sum()
        count += batch.weights.sum()
    assert found == pytest.approx(total / count, rel=1e-5)


def test_the_logged_learning_rate_is_the_one_used(trainer: Make) -> None:
    run = trainer(optimization__warmup_pct=0.25, optimization__decay_pct=0.25)()
    rates = [m["train/lr"] for m in run.metrics()]
    assert rates[0] == pytest.approx(3e-3 / 10)  # the first of ten steps up
    assert rates[20] == pytest.approx(3e-3)
    assert rates[-1] == pytest.approx(3e-4)


def test_packed_documents_can_be_kept_apart(trainer: Make) -> None:
    run = trainer(data__separate_documents=True, training__tokens=3 * 8 * 32)()
    assert run.state == "finished"
    targets = [m["train/targets"] for m in run.metrics()]
    assert all(0 < n < 8 * 32 for n in targets)  # the first token of a document is no target


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"architecture__n_head": 3}, r"n_head = 3 .*these do: 1 2 4 8 16 32"),
        ({"architecture__vocab_size": 256}, r"vocab_size = 256 .*257 or more"),
        ({"training__tokens": 10}, "less than one step"),
        ({"architecture__block_size": 100_000, "training__tokens": 10**7}, "block_size"),
        ({"optimization__warmup_pct": 0.9, "optimization__decay_pct": 0.9}, "overlap"),
        ({"architecture__n_embd": 2**16, "architecture__n_layers": 96}, "this machine has"),
        ({"data__dataset": "stdlib"}, r"q\.build\('data/tokenize/stdlib'"),
        ({"data__dataset": "stdlbi"}, "did you mean 'stdlib'"),
        ({"tokenizer__backend": "tiktoken", "tokenizer__name": "gpt3"}, "gpt"),
    ],
)
def test_what_cannot_work_is_refused_before_a_run_exists(
    trainer: Make, tmp_path: Path, changes: dict[str, Any], says: str
) -> None:
    made = trainer(**changes)
    with pytest.raises(UserError, match=says):
        made()
    assert not (tmp_path / "runs").exists()


def test_a_loss_that_is_not_a_number_ends_the_run_and_names_the_step(
    trainer: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = trainer(logging__checkpoint_interval=5)
    real = base.train_step

    def poisoned(training: Any, state: Any, batches: Any, gradients: Any) -> Any:
        state, metrics = real(training, state, batches, gradients)
        bad = jnp.where(state.step == 13, jnp.nan, metrics.loss)
        return state, metrics._replace(loss=bad)

    monkeypatch.setattr(base, "train_step", poisoned)
    with pytest.raises(loop.DivergedError, match=r"step 13 is nan.*step 10 is kept"):
        made()
    assert made.latest.state == "failed"


def test_only_matrices_decay(trainer: Make) -> None:
    made = trainer()
    boxed = jax.eval_shape(lambda: boxed_parameters(made.model, 0, 32))
    decayed = nn.meta.unbox(matrices(boxed))
    told = {
        jax.tree_util.keystr(path, simple=True, separator="/"): flag
        for path, flag in jax.tree_util.tree_leaves_with_path(decayed)
    }
    assert {path.rpartition("/")[2] for path, flag in told.items() if flag} == {
        "token_embedding",
        "position_embedding",
        "qkv",
        "out",
        "up",
        "down",
    }
    assert len(told) == 16
    shapes = jax.eval_shape(lambda: nn.meta.unbox(boxed_parameters(made.model, 0, 32)))
    params = jax.tree.map(lambda p: jnp.ones(p.shape), shapes)
    optimizer = AdamW(weight_decay=0.5).build(lambda _: jnp.float32(0.1), boxed)
    updates, _ = jax.jit(optimizer.update)(
        jax.tree.map(jnp.zeros_like, params), optimizer.init(params), params
    )
    for path, update in jax.tree_util.tree_leaves_with_path(updates):
        expected = -0.05 if told[jax.tree_util.keystr(path, simple=True, separator="/")] else 0.0
        np.testing.assert_allclose(update, expected, rtol=1e-6)


class WordCount:
    """An analysis of the tests."""

    def analyze(self, measured: Any) -> dict[str, Any]:
        return {"parameters": len(jax.tree.leaves(measured.params)), "at": measured.step}


class ScaledConfig(BaseTrainerConfig):
    """Nothing added."""


class ScaledGPT(GPT):
    logit_scale: float = field("architecture/logit_scale", default=1.0)

    def unembed(self, x: jax.Array) -> jax.Array:
        return super().unembed(x) * self.logit_scale


class ScaledTrainer(BaseTrainer[BaseTrainerConfig, GPT]):
    """All seven fields set."""

    MODEL = ScaledGPT
    CONFIG = BaseTrainerConfig
    DATASET: ClassVar[Any] = [Sampling("text", 1.0, "pmd")]
    EVALUATION: ClassVar[Any] = [Perplexity]
    ANALYSIS: ClassVar[Any] = [WordCount]


def test_evaluations_are_reported_and_analyses_are_kept(trainer: Make) -> None:
    run = trainer(ScaledTrainer, training__validation=True, architecture__logit_scale=0.5)()
    last = run.metrics()[-1]
    assert last["eval/perplexity"] == pytest.approx(np.exp(last["val/loss"]), rel=1e-5)
    kept = sorted(path.name for path in run.results_folder.glob("*.json"))
    assert kept == ["WordCount-20.json", "WordCount-40.json"]


def test_parameters_before_any_training_are_refused(trainer: Make) -> None:
    with pytest.raises(UserError, match="call the trainer first"):
        _ = trainer().params


def test_a_subclass_may_declare_only_what_differs() -> None:
    keys = {r for r in ScaledTrainer.configs() if r is ScaledGPT}
    assert keys == {ScaledGPT}
    assert ConfigError is not None
