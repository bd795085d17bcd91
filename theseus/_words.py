"""A line → its words as a POSIX shell takes them, each with the place where it stands.

`shlex.split` gives the same words without their places, which completion and error messages need.
Nothing is expanded: `$x`, `*` and `{a}` stay as they are.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

_SPACE = " \t\r\n"


@dataclass(frozen=True)
class Word:
    """One word: what it means, where it stands (`line[start:end]`), and the quote left open in it."""

    text: str
    start: int
    end: int
    open_quote: str = ""


def split(line: str) -> list[Word]:
    """Return the words of a line; one whose quote is not closed reaches to the end of the line."""
    words: list[Word] = []
    position = 0
    while position < len(line):
        if line[position] in _SPACE:
            position += 1
            continue
        word = _word(line, position)
        words.append(word)
        position = word.end
    return words


def _word(line: str, start: int) -> Word:
    text, quote, position = "", "", start
    while position < len(line):
        letter = line[position]
        following = line[position + 1 : position + 2]
        if quote:
            if letter == quote:
                quote = ""
            elif letter == "\\" and quote == '"' and following in ('"', "\\"):
                text += following
                position += 1
            else:
                text += letter
        elif letter in _SPACE:
            break
        elif letter in "'\"":
            quote = letter
        elif letter == "\\":
            if not following:
                quote = letter
            text += following
            position += 1
        else:
            text += letter
        position += 1
    return Word(text, start, min(position, len(line)), quote)


def quoted(text: str, quote: str = "") -> str:
    """Return `text` as one word, in the quotes that its writer has opened, or in any if it needs them."""
    if quote == "'" and "'" not in text:
        return f"'{text}'"
    if quote == '"' and not set('"\\') & set(text):
        return f'"{text}"'
    return shlex.quote(text)
