"""Long texts in pieces that a memory can take in one by one."""

from __future__ import annotations

from collections.abc import Iterator

MOST_CHUNK_TOKENS = 200
BYTES_PER_TOKEN = 4
"""Of UTF-8; what is left over is a token too."""


def chunks(text: str, *, tokens: int = MOST_CHUNK_TOKENS) -> list[str]:
    """Cut a text into pieces of at most so many tokens, at line ends where it can; together they are the text.

    Raises ValueError when a character can be more than a piece.
    """
    if tokens < 1:
        raise ValueError(f"a piece of {tokens} tokens holds no character")
    pieces, piece, size = list[str](), list[str](), 0
    for part in _parts(text, tokens * BYTES_PER_TOKEN):
        length = len(part.encode("utf-8", "surrogatepass"))
        if size + length > tokens * BYTES_PER_TOKEN:
            pieces.append("".join(piece))
            piece, size = [], 0
        piece.append(part)
        size += length
    return [*pieces, "".join(piece)] if piece else pieces


def _parts(text: str, most: int) -> Iterator[str]:
    """Yield the lines with their ends; a line of more than ``most`` bytes in several parts."""
    for line in text.splitlines(keepends=True):
        start, left = 0, line[: most + 1]  # as many characters have more bytes than a part, whatever follows
        while len(encoded := left.encode("utf-8", "surrogatepass")) > most:
            part = encoded[:most].decode("utf-8", "ignore") or left[:1]
            space = part.rfind(" ") + 1
            part = part[:space] if space else part
            yield part
            start += len(part)
            left = line[start : start + most + 1]
        yield left
