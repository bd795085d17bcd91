"""Secret values: kept out of everything that is shown or written, and taken out of text.

A secret shows itself as dots wherever it is printed, formatted or put into JSON with
`default=str`; only `reveal` gives the value, and only what starts a run calls it.
"""

from __future__ import annotations

import base64
import hmac
import json
import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn, final
from urllib.parse import quote

from theseus.errors import UserError

SHOWN = "••••"

# A shorter value would also be a part of ordinary words; it is taken out where it stands alone.
_TELLING = 8


class MissingSecretError(UserError):
    """A secret whose environment variable is not set on this machine."""


@final
class Secret:
    """A value that is not shown.

    Parameters
    ----------
    value
        The value; None when it could not be found.
    missing
        What `reveal` says when there is no value: where it was asked for, and what to do.

    It cannot be pickled: a secret goes to a host in one file that only its owner reads, and
    nowhere else.
    """

    __slots__ = ("_missing", "_value")

    def __init__(self, value: str | None, *, missing: str = "") -> None:
        self._value = value
        self._missing = missing

    @property
    def is_known(self) -> bool:
        """Whether there is a value."""
        return self._value is not None

    def reveal(self) -> str:
        """Return the value.

        Raises
        ------
        MissingSecretError
            When the environment variable that holds it is not set.
        """
        if self._value is None:
            raise MissingSecretError(self._missing or "a secret has no value")
        return self._value

    def __str__(self) -> str:
        return SHOWN

    def __repr__(self) -> str:
        return SHOWN

    def __format__(self, specification: str) -> str:
        return format(SHOWN, specification)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        if self._value is None or other._value is None:
            return self._value is other._value and self._missing == other._missing
        ours, theirs = (
            one.encode("utf-8", "surrogateescape") for one in (self._value, other._value)
        )
        return hmac.compare_digest(ours, theirs)

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: object) -> Secret:
        return self

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        msg = "a secret cannot be pickled"
        raise TypeError(msg)


# Words of a name that say that its value is nobody else's business. `TOKENIZERS_PARALLELISM` and
# `MAX_TOKENS` have none of them.
_WORDS = frozenset(
    [
        "auth",
        "credential",
        "credentials",
        "key",
        "keys",
        "pass",
        "passphrase",
        "passwd",
        "password",
        "passwords",
        "pat",
        "pw",
        "pwd",
        "secret",
        "secrets",
        "token",
    ]
)
_ENDINGS = (
    "apikey",
    "accesskey",
    "authkey",
    "privatekey",
    "secretkey",
    "password",
    "secret",
    "token",
)
_HARMLESS = frozenset({"PWD", "OLDPWD"})  # folders, in every shell
_CREDENTIALS = re.compile(r"://[^/@\s:]*:[^/@\s]+@")


def looks_secret(name: str, value: str = "") -> bool:
    """Tell whether an environment variable is a secret by its name, or by a URL with a password."""
    if name not in _HARMLESS:
        words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)
        if any(word.lower() in _WORDS or word.lower().endswith(_ENDINGS) for word in words):
            return True
    return _CREDENTIALS.search(value) is not None


def revealed(environment: Mapping[str, str | Secret]) -> dict[str, str]:
    """Return the environment with its secrets, for the one file that takes them to a host."""
    return {
        name: value.reveal() if isinstance(value, Secret) else value
        for name, value in environment.items()
    }


def secrets_in(*environments: Mapping[str, str | Secret]) -> tuple[Secret, ...]:
    """Return the secrets among these values, for `redacted`."""
    return tuple(
        value
        for environment in environments
        for value in environment.values()
        if isinstance(value, Secret)
    )


def redacted(text: str, secrets: Iterable[Secret]) -> str:
    """Return text without the values of these secrets.

    A value is found as it is, and as it is written inside JSON, a shell word, a URL and base64; of
    a value of several lines (a private key) each line is found too.
    """
    ordered = forms_of(secrets)
    return re.sub("|".join(map(_pattern, ordered)), SHOWN, text) if ordered else text


def scrubbed(value: Any, secrets: Iterable[Secret]) -> Any:
    """Return a plain value (of JSON) with `redacted` texts, keys included."""
    secrets = tuple(secrets)
    if isinstance(value, str):
        return redacted(value, secrets)
    if isinstance(value, Mapping):
        return {scrubbed(key, secrets): scrubbed(item, secrets) for key, item in value.items()}
    if isinstance(value, list):
        return [scrubbed(item, secrets) for item in value]
    return value


def forms_of(secrets: Iterable[Secret]) -> list[str]:
    """Return every way in which these secrets may be written, the longest first.

    In that order, because a secret may be the beginning of another.
    """
    forms: set[str] = set()
    for secret in secrets:
        if secret.is_known:
            forms.update(_forms(secret.reveal()))
    return sorted(forms, key=lambda form: (-len(form), form))


def is_telling(form: str) -> bool:
    """Tell whether a secret is long enough to be no part of ordinary words."""
    return len(form) >= _TELLING


def _pattern(form: str) -> str:
    found = re.escape(form)
    return found if is_telling(form) else rf"(?<![^\W_]){found}(?![^\W_])"


def _forms(value: str) -> Iterable[str]:
    lines = [line.strip() for line in value.splitlines()]
    for part in {value, value.strip(), *(line for line in lines if len(line) >= _TELLING)}:
        if not part:
            continue
        yield part
        yield json.dumps(part)[1:-1]
        yield json.dumps(part, ensure_ascii=False)[1:-1]
        yield shlex.quote(part)
        if len(part) >= _TELLING:
            data = part.encode("utf-8", "surrogateescape")
            yield quote(data, safe="")
            yield base64.b64encode(data).decode().rstrip("=")
            yield base64.urlsafe_b64encode(data).decode().rstrip("=")
