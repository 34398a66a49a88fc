"""The values that are sent: bytes that cannot be compressed, or text that can."""

import os
import random
from typing import Final

_WORDS: Final = 3_000
_KEYS: Final = 40


def values_of(content: str, record_bytes: int, count: int) -> list[bytes]:
    """Return so many values of this size. `random`: bytes without a pattern; `json`: objects with words and
    numbers, the same in each run."""
    if content == "random":
        return [os.urandom(record_bytes) for _ in range(count)]
    chance = random.Random(7)
    words = [
        "".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(3, 9))) for _ in range(_WORDS)
    ]
    return [_object(chance, words, record_bytes) for _ in range(count)]


def _object(chance: random.Random, words: list[str], record_bytes: int) -> bytes:
    text = "{"
    while len(text) < record_bytes:
        text += f'"{chance.choice(words[:_KEYS])}": "{chance.choice(words)} {chance.randint(0, 99_999)}", '
    return text.encode()[:record_bytes]
