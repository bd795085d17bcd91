r"""How a program and its answer travel through a shell that is not ours.

The account's login shell may be bash, dash, zsh, fish or tcsh, and its start-up files may print. So
that shell is given one plain list of words, `COMMAND`, and everything else goes to the standard
input of `/bin/sh`. The answer stands between marks that are drawn at random for each call, on both
streams; what is before and after them is not ours. Without its marks there is no answer at all.

Nothing of a program or its arguments appears in the host's list of processes.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field

COMMAND = ("/bin/sh", "-s")

_SAFE = re.compile(r"[A-Za-z0-9@%+=:,./_-]+", re.ASCII)

# The whole text is one compound command: a shell reads it to its end before it runs any of it, so
# what is sent after the first mark has come back can only be read by the program. The marks are put
# together from two halves: a shell that repeats its input cannot utter them.
_FRAME = """\
{{ theseus_a={first} theseus_b={second}
printf '\\036%s%s<' "$theseus_a" "$theseus_b"
printf '\\036%s%s<' "$theseus_a" "$theseus_b" >&2
( set -- {arguments}
eval {program}
)
theseus_status=$?
printf '\\036%s%s>%s\\n' "$theseus_a" "$theseus_b" "$theseus_status" >&2
printf '\\036%s%s>%s\\n' "$theseus_a" "$theseus_b" "$theseus_status"
exit 0; }}
"""


def quoted(*words: str) -> str:
    r"""Return words as a POSIX shell reads them back: the one place where text is quoted.

    >>> print(quoted("cp", "a b", "-", "it's"))
    cp 'a b' - 'it'\''s'

    Raises
    ------
    ValueError
        When a word has a NUL, which no argument can hold.
    """
    return " ".join(_quoted(word) for word in words)


def _quoted(word: str) -> str:
    if "\0" in word:
        msg = f"an argument cannot hold a NUL: {word!r}"
        raise ValueError(msg)
    if _SAFE.fullmatch(word):
        return word
    return "'" + word.replace("'", "'\\''") + "'"


@dataclass(frozen=True)
class Frame:
    """The marks of one call."""

    first: str = field(default_factory=lambda: secrets.token_hex(8))
    second: str = field(default_factory=lambda: secrets.token_hex(8))

    def text(self, program: str, arguments: tuple[str, ...]) -> bytes:
        """Return what `/bin/sh` reads to run `program` with `arguments` between the marks."""
        text = _FRAME.format(
            first=self.first,
            second=self.second,
            arguments=quoted(*arguments),
            program=quoted(program),
        )
        # A path may hold bytes that are not UTF-8; Python keeps them as lone surrogates.
        return text.encode("utf-8", "surrogateescape")

    @property
    def begin(self) -> bytes:
        """What stands before the answer."""
        return f"\036{self.first}{self.second}<".encode()

    @property
    def end(self) -> bytes:
        """What stands after the answer, before the exit status and the end of the line."""
        return f"\036{self.first}{self.second}>".encode()


class Unframed:
    """The answer on one stream, taken out of its marks as the bytes arrive.

    Attributes
    ----------
    begun
        Whether the first mark has come.
    status
        The exit status; None until the last mark has come.
    noise
        The last of what came before the first mark, to explain why there is no answer.
    """

    def __init__(self, frame: Frame) -> None:
        self._begin, self._end = frame.begin, frame.end
        self._rest = b""
        self.begun = False
        self.status: int | None = None
        self.noise = b""

    @property
    def unread(self) -> bytes:
        """What came before the first mark, with what may yet be a part of it."""
        return self.noise + self._rest

    def feed(self, data: bytes) -> bytes:
        """Take in bytes; return those of the answer that are certain."""
        if self.status is not None:
            return b""
        data = self._rest + data
        self._rest = b""
        if not self.begun:
            before, mark, data = data.partition(self._begin)
            if not mark:
                kept = _partial(before, self._begin)
                self._rest = before[len(before) - kept :]
                self.noise = (self.noise + before[: len(before) - kept])[-2000:]
                return b""
            self.noise = (self.noise + before)[-2000:]
            self.begun = True
        answer, mark, after = data.partition(self._end)
        if not mark:
            kept = _partial(answer, self._end)
            self._rest = answer[len(answer) - kept :]
            return answer[: len(answer) - kept]
        number, newline, _ = after.partition(b"\n")
        if newline and number.isdigit():
            self.status = int(number)
        else:
            self._rest = mark + after
        return answer


def _partial(data: bytes, mark: bytes) -> int:
    """Return how many bytes at the end of `data` may be the beginning of `mark`."""
    start = data.rfind(mark[:1], max(0, len(data) - len(mark) + 1))
    # A mark begins with a byte that is nowhere else in it: only the last one can begin a mark.
    return len(data) - start if start >= 0 and mark.startswith(data[start:]) else 0
