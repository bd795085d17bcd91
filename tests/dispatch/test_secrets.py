"""Secrets are shown nowhere, and are taken out of every text."""

import base64
import copy
import itertools
import json
import logging
import pickle
import re
import shlex
from dataclasses import asdict, dataclass
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from theseus.dispatch.log_secrets import covered
from theseus.dispatch.logs import Notice, Piece
from theseus.dispatch.secrets import (
    MissingSecretError,
    Secret,
    looks_secret,
    redacted,
    revealed,
    secrets_in,
)

VALUE = "hf_abcdefghijklmnop"


@pytest.mark.parametrize(
    "shown",
    [
        str,
        repr,
        lambda secret: f"{secret}",
        lambda secret: f"{secret:>30}",
        lambda secret: f"{secret!r}",
        lambda secret: "%s" % secret,  # noqa: UP031
        lambda secret: str({"HF_TOKEN": secret}),
        lambda secret: json.dumps({"HF_TOKEN": secret}, default=str, ensure_ascii=False),
        lambda secret: str(copy.deepcopy([secret])),
    ],
)
def test_a_secret_is_never_shown(shown):
    text = shown(Secret(VALUE))
    assert VALUE not in text
    assert "••••" in text


def test_a_secret_is_not_in_a_log_record_nor_in_a_dataclass(caplog):
    @dataclass
    class Holder:
        token: Secret

    holder = Holder(Secret(VALUE))
    logging.getLogger("x").warning("host: %s %s", holder, asdict(holder))
    assert VALUE not in caplog.text


def test_a_secret_cannot_be_pickled():
    with pytest.raises(TypeError, match="secret cannot be pickled"):
        pickle.dumps({"env": Secret(VALUE)})


def test_a_secret_has_no_attributes_to_look_into():
    assert not hasattr(Secret(VALUE), "__dict__")


def test_the_value_is_there_for_who_asks():
    assert Secret(VALUE).reveal() == VALUE
    assert Secret(VALUE) == Secret(VALUE) != Secret("other")
    assert hash(Secret(VALUE)) == hash(Secret(VALUE))
    assert Secret(VALUE) != VALUE


def test_a_missing_one_says_what_to_do_when_it_is_needed():
    secret = Secret(None, missing="~/.theseus.yaml, line 3: $HF_TOKEN is not set here")
    assert not secret.is_known
    assert redacted("text", [secret]) == "text"
    with pytest.raises(MissingSecretError, match=r"line 3: \$HF_TOKEN"):
        revealed({"HF_TOKEN": secret})


def test_an_environment_is_revealed_as_a_whole():
    environment = {"HF_TOKEN": Secret(VALUE), "OMP_NUM_THREADS": "8"}
    assert revealed(environment) == {"HF_TOKEN": VALUE, "OMP_NUM_THREADS": "8"}
    assert secrets_in(environment, {"A": Secret("b")}) == (Secret(VALUE), Secret("b"))


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN",
        "WANDB_API_KEY",
        "OPENAI_APIKEY",
        "AWS_SECRET_ACCESS_KEY",
        "DB_PASSWORD",
        "MYSQL_PWD",
        "GITHUB_PAT",
        "token",
        "githubToken",
        "SSH_PASSPHRASE",
        "GOOGLE_APPLICATION_CREDENTIALS",
    ],
)
def test_names_that_look_secret(name):
    assert looks_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        "TOKENIZERS_PARALLELISM",
        "MAX_TOKENS",
        "PWD",
        "OLDPWD",
        "PATH",
        "KEYBOARD",
        "XLA_FLAGS",
        "PATTERN",
        "AUTHOR",
    ],
)
def test_names_that_do_not(name):
    assert not looks_secret(name)


def test_a_url_with_a_password_is_a_secret():
    assert looks_secret("DATABASE_URL", "postgres://ada:pa55@db.example.org/x")
    assert not looks_secret("DATABASE_URL", "postgres://db.example.org:5432/x")


AWKWARD = 'it\'s "a" \\ päss$word'


@pytest.mark.parametrize(
    "written",
    [
        str,
        json.dumps,
        lambda value: json.dumps(value, ensure_ascii=False),
        shlex.quote,
        lambda value: quote(value, safe=""),
        lambda value: base64.b64encode(value.encode()).decode(),
        lambda value: json.dumps({"env": {"A": value}}, indent=1),
    ],
)
def test_a_value_is_found_however_it_is_written(written):
    text = f"before {written(AWKWARD)} after"
    clean = redacted(text, [Secret(AWKWARD)])
    assert "päss" not in clean
    assert "word" not in clean
    assert written(AWKWARD) not in clean
    assert clean.startswith("before ")
    assert clean.endswith(" after")


def test_each_line_of_a_private_key_is_taken_out():
    key = "-----BEGIN KEY-----\nMIIEpAIBAAKCAQEA\nqwertyuiopasdfgh\n-----END KEY-----\n"
    clean = redacted("> MIIEpAIBAAKCAQEA\n> qwertyuiopasdfgh", [Secret(key)])
    assert clean == "> ••••\n> ••••"


def test_a_short_value_is_taken_out_where_it_stands_alone():
    assert redacted("pin=1234, step 12345, 1234", [Secret("1234")]) == "pin=••••, step 12345, ••••"


def test_one_secret_that_begins_another_leaves_no_rest():
    assert redacted("abcdefghij-klm", [Secret("abcdefghij"), Secret("abcdefghij-klm")]) == "••••"


def test_an_empty_secret_takes_nothing_out():
    assert redacted("text", [Secret(""), Secret("  ")]) == "text"


@given(st.text(min_size=8), st.text(), st.text())
def test_no_long_value_is_ever_left(value, before, after):
    if value.strip() and "•" not in value:
        assert value not in redacted(before + value + after, [Secret(value)])


# What a job has printed


TOKENS = ("hf_0123456789abcdef", "hf_0123", "pässwörd: geheim")
WORDS = st.lists(st.sampled_from([*TOKENS, "hf_", "hf_012345678", "a", " ", "\n", "ü", "€"]))


@given(WORDS, st.lists(st.integers(0, 200)), st.integers(0, 50))
def test_a_printed_secret_is_covered_however_the_log_arrives(
    words: list[str], cuts: list[int], start: int
) -> None:
    data = "".join(words).encode()
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    pieces = [Piece("0", start + a, data[a:b]) for a, b in itertools.pairwise(edges) if a < b]
    shown = [
        event
        for event in covered(pieces, [Secret(token) for token in TOKENS])
        if isinstance(event, Piece)
    ]
    together = b"".join(piece.data for piece in shown)
    assert len(together) == len(data)
    # Every piece says where it is, so a reader can begin again behind it.
    offsets = [start, *(piece.end for piece in shown)]
    assert [piece.offset for piece in shown] == offsets[:-1]
    for token in (TOKENS[0], TOKENS[2]):
        assert token.encode() not in together
    # A short one is covered where it is a word.
    for found in re.finditer(rb"(?<![A-Za-z0-9])hf_0123(?![A-Za-z0-9])", data):
        assert set(together[found.start() : found.end()]) == {ord("*")}
    # Nothing but secrets is covered.
    kept = [a == b for a, b in zip(together, data, strict=True)]
    assert all(a == ord("*") for a, same in zip(together, kept, strict=True) if not same)
    assert all(kept) or any(token.encode() in data for token in TOKENS)


def test_without_secrets_a_log_passes_as_it_is() -> None:
    events = [Piece("0", 0, b"hf_"), Notice(None, "lost", "out of reach")]
    assert list(covered(events, [Secret(None)])) == events
