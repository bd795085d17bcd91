"""Text that a trained model writes."""

from __future__ import annotations

from functools import partial
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from theseus.data.tokenizer import Tokenizer
from theseus.errors import UserError
from theseus.training.randomness import Purpose, key


class Trained(Protocol):
    """A model with its parameters and tokenizer, such as a trainer that has run."""

    @property
    def model(self) -> Any:
        """The module, with the method `next_logits`."""

    @property
    def params(self) -> Any:
        """Its parameters."""

    @property
    def tokenizer(self) -> Tokenizer:
        """What made its tokens."""


def generate(
    trained: Trained,
    prompt: str = "",
    *,
    max_new_tokens: int = 200,
    temperature: float = 0.8,
    top_k: int | None = 50,
    seed: int = 0,
) -> str:
    """Return the prompt and what the model writes after it, up to the end of the document.

    Parameters
    ----------
    trained
        A trainer that has run.
    prompt
        What to go on from; empty: the start of a document.
    max_new_tokens
        How many tokens are written at the most.
    temperature
        Logits are divided by it; 0 always takes the likeliest token.
    top_k
        Only the likeliest `top_k` tokens are drawn from; None: all.
    seed
        Decides what is drawn.
    """
    if temperature < 0:
        msg = f"temperature is 0 or more, got {temperature!r}"
        raise UserError(msg)
    tokenizer, model = trained.tokenizer, trained.model
    ids = [int(i) for i in tokenizer.encode_batch([prompt])[0]] if prompt else []
    ids = [i for i in ids if i != tokenizer.eos_id] or [tokenizer.eos_id]
    context = ids[-model.block_size :]
    window = np.zeros(model.block_size, np.int32)
    window[: len(context)] = context
    written = _write(
        model,
        max_new_tokens,
        tokenizer.vocab_size,
        min(top_k, tokenizer.vocab_size) if top_k else None,
        trained.params,
        jnp.asarray(window),
        len(context),
        temperature,
        key(seed, Purpose.EVALUATION),
    )
    out = [int(i) for i in np.asarray(written)]
    if tokenizer.eos_id in out:
        out = out[: out.index(tokenizer.eos_id)]
    start = [i for i in ids if i != tokenizer.eos_id]
    return tokenizer.decode([*start, *out])


@partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _write(
    model: Any,
    count: int,
    vocab_size: int,
    top_k: int | None,
    params: Any,
    window: jax.Array,
    length: jax.Array | int,
    temperature: jax.Array | float,
    random_key: jax.Array,
) -> jax.Array:
    """Return `count` new tokens after the first `length` of `window` (T,); the window slides."""

    def step(carry: tuple[jax.Array, jax.Array], index: jax.Array) -> tuple[Any, jax.Array]:
        window, length = carry
        logits = model.apply({"params": params}, window[None], length - 1, method="next_logits")[
            0, :vocab_size
        ]
        if top_k is not None:
            least = jax.lax.top_k(logits, top_k)[0][-1]
            logits = jnp.where(logits < least, -jnp.inf, logits)
        drawn = jax.random.categorical(
            jax.random.fold_in(random_key, index), logits / jnp.maximum(temperature, 1e-6)
        )
        token = jnp.where(temperature == 0, jnp.argmax(logits), drawn).astype(jnp.int32)
        full = length == window.shape[0]
        window = jnp.where(full, jnp.roll(window, -1), window)
        at = jnp.where(full, length - 1, length)
        return (window.at[at].set(token), at + 1), token

    _, written = jax.lax.scan(step, (window, jnp.int32(length)), jnp.arange(count))
    return written
