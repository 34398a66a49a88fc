"""Writes the blocking clients of the SDK from the asyncio ones: `make blocking`. With --check it writes
nothing, and exits with 1 if a twin does not match its source.

A twin is its source without `async` and `await`, with the names of the threads' side (`NAMES`, `PASSAGES`),
and with other text in the few places where it says or does something else (`Twin.passages`).
ruff sorts its imports and formats its lines.
"""

import io
import re
import subprocess
import sys
import tokenize
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

SDK = Path(__file__).resolve().parent / "hightide"

#: Names that are replaced everywhere in code, but not in strings and comments.
NAMES = {
    "AioTransport": "Transport",
    "AsyncIterator": "Iterator",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
}

#: Text that is replaced in every source that has it.
PASSAGES = (
    ("hightide.aio.delivery", "hightide.producing.delivery"),
    ("hightide.aio.consumer_positions", "hightide.consumer_positions"),
    ("hightide.aio.consumer import", "hightide.consumer import"),
    ("hightide.aio.producer import", "hightide.producer import"),
    ("hightide.aio.driver", "hightide.transport.driver"),
    ("hightide.aio.group_consumer", "hightide.group_consumer"),
    ("hightide.aio.record_stream", "hightide.record_stream"),
    ("hightide.aio.running", "hightide.transport.running"),
    ("hightide.aio.sender", "hightide.transport.sender"),
    ("hightide.aio.loop_condition", "hightide.transport.thread_condition"),
    ("LoopCondition", "ThreadCondition"),
    ("import asyncio", "import time"),
    ("asyncio.sleep", "time.sleep"),
    ('"hightide-aio-', '"hightide-'),
)

# An asynchronous generator cannot say `yield from`.
_YIELDED_ONE_BY_ONE = re.compile(r"^( *)for (\w+) in (.+):\n\1    yield \2$", re.MULTILINE)


class StalePassageError(Exception):
    """A passage that the twin replaces is no longer in the source: change the table."""


@dataclass(frozen=True, slots=True)
class Twin:
    """A module of `hightide.aio` and the module that is written from it. `passages`: texts of the source,
    each with its replacement."""

    source: str
    target: str
    passages: tuple[tuple[str, str], ...]

    def text(self) -> str:
        """The blocking twin as it has to be. Raises StalePassageError."""
        origin = f"# Generated from {self.source} by `make blocking`: change that one, not this.\n"
        try:
            return _folded(origin + blocking(SDK.joinpath(self.source).read_text(), self.passages))
        except StalePassageError as error:
            error.add_note(f"look at hightide/{self.source} and its passages in {Path(__file__).name}")
            raise


TWINS = (
    Twin(
        "aio/running.py",
        "transport/running.py",
        (("by asyncio; see", "by threads; see"), ("on this loop", "on this thread")),
    ),
    Twin(
        "aio/admin.py",
        "admin.py",
        (
            ("The asyncio admin client.", "The blocking admin client."),
            (
                "describes on one event loop. It finds the active controller by itself and follows\n"
                "    it when it changes.",
                "describes; thread-safe. It finds the active controller by itself and follows it\n"
                "    when it changes.",
            ),
        ),
    ),
    Twin(
        "aio/group_consumer.py",
        "group_consumer.py",
        (
            ("An asyncio consumer as", "A blocking consumer as"),
            ("user's task does", "user's thread does"),
            (
                "        result = None if callback is None else callback(event.partitions)\n"
                "        if isawaitable(result):\n"
                "            await result\n",
                "        if callback is not None:\n            callback(event.partitions)\n",
            ),
            (
                "            result = outcome.callback(outcome.written, outcome.error)\n"
                "            if isawaitable(result):\n"
                "                await result\n",
                "            outcome.callback(outcome.written, outcome.error)\n",
            ),
            ("from inspect import isawaitable\n", ""),
        ),
    ),
    Twin(
        "aio/consumer.py",
        "consumer.py",
        (
            ("The asyncio consumer:", "The blocking consumer:"),
            ("of `GroupCore`, for one event loop.", "of `GroupCore`, for threads."),
            ("for one task at a time.", "for use by one thread at a time."),
            ("a task of its own, and", "a thread of its own, and"),
            (" The\n    callbacks may be coroutines.", ""),
            ("on the event loop, in the task that fetches", "on the client's thread that fetches"),
            ("await self.assignment()", "self.assignment"),
        ),
    ),
    Twin(
        "aio/record_stream.py",
        "record_stream.py",
        (
            ("The streams of an asyncio consumer:", "The streams of a blocking consumer:"),
            ("for one task at a time:", "for one thread at a time:"),
            ("the fetching task failed", "the fetching thread failed"),
        ),
    ),
    Twin(
        "aio/serializing.py",
        "serializing.py",
        (
            ("All tasks that read", "All threads that read"),
            ("An asyncio producer that", "A blocking producer that"),
            ("return await delivery", "return delivery.result()"),
        ),
    ),
    Twin(
        "aio/consumer_positions.py",
        "consumer_positions.py",
        (
            ("an asyncio consumer: its", "a blocking consumer: its"),
            ("`hightide.aio.consumer` takes", "`hightide.consumer` takes"),
            ("    async def assignment(", "    @property\n    def assignment("),
            ("await self.assignment()", "self.assignment"),
            ("the fetching task failed", "the fetching thread failed"),
        ),
    ),
    Twin(
        "aio/producer.py",
        "producer.py",
        (
            ("The asyncio producer:", "The blocking producer:"),
            ("of `ProducerCore` for one event loop.", "of `ProducerCore` for threads."),
            ("Sends records; for one event loop.", "Sends records; thread-safe."),
            ("on the event loop, in the task that sends", "on the client's thread that sends"),
            (
                "self._lock = self._changed = LoopCondition()",
                "self._changed = ThreadCondition()\n        self._lock = self._changed.lock",
            ),
            ("Waits while the buffer is full", "Blocks while the buffer is full"),
            ("return await delivery", "return delivery.result()"),
            ("\n        Await the Delivery to know where it went.", ""),
            ("await BulkDelivery(batches).settled(timeout_s)", "BulkDelivery(batches).exception(timeout_s)"),
            # An interrupted thread raises the error of what is left; a cancelled task must end as cancelled.
            (
                "        if left is not None:\n            raise left\n",
                "            if left is not None:\n                raise left\n",
            ),
            ("the sender task failed", "the sender thread failed"),
        ),
    ),
)


def blocking(source: str, passages: tuple[tuple[str, str], ...]) -> str:
    """The twin of an asyncio module, before ruff has formatted it. Raises StalePassageError."""
    text = source
    for passage, instead in passages:
        if passage not in text:
            raise StalePassageError(f"this is not in the source: {passage!r}")
        text = text.replace(passage, instead)
    for passage, instead in PASSAGES:
        text = text.replace(passage, instead)
    text = _without_await(text)
    return _YIELDED_ONE_BY_ONE.sub(r"\1yield from \3", text)


def _without_await(text: str) -> str:
    """The code without its `async` and `await`, and with the names of the threads' side."""
    lines = text.splitlines(keepends=True)
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    for token, following in reversed(list(pairwise(tokens))):
        if token.type != tokenize.NAME:
            continue
        row, column = token.start
        line = lines[row - 1]
        if token.string in ("async", "await"):
            lines[row - 1] = line[:column] + line[following.start[1] :]
        elif token.string in NAMES:
            lines[row - 1] = line[:column] + NAMES[token.string] + line[token.end[1] :]
    return "".join(lines)


def _folded(text: str) -> str:
    """The text with sorted imports and lines of the project's length, as ruff formats it."""
    for arguments in (["check", "--quiet", "--select", "I", "--fix-only"], ["format", "--quiet"]):
        ruff = [
            str(Path(sys.executable).with_name("ruff")),
            *arguments,
            "--stdin-filename",
            str(SDK / "twin.py"),
            "-",
        ]
        text = subprocess.run(ruff, input=text, check=True, capture_output=True, text=True).stdout
    return text


def main(arguments: list[str]) -> int:
    """Write the twins, or report which are out of date."""
    stale = []
    for twin in TWINS:
        path = SDK / twin.target
        fresh = twin.text()
        if path.exists() and path.read_text() == fresh:
            continue
        stale.append(twin)
        if "--check" not in arguments:
            path.write_text(fresh)
    if "--check" not in arguments:
        return 0
    for twin in stale:
        print(f"hightide/{twin.target} is not what hightide/{twin.source} says; run `make blocking`")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
