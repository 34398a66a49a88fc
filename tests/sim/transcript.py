"""Transcripts: commands to three real broker cores, and what followed from each, as text that reads as a
story.

A file holds blocks: lines of `#` comment, one command, `----`, what it led to, an empty line. Commands:
`decide leader=2 epoch=3 isr=2,3 [to=2]`, `produce 1 a b`, `fetch 2` (one round), `ask 2` (one question
about an epoch), `restart 2 [lost=1]`, `show` (all logs).
"""

from __future__ import annotations

from collections.abc import Callable

from unit.broker_core.replica_pair import Node, ReplicaPair


def options(words: list[str]) -> dict[str, str]:
    return {name: value or "yes" for name, _, value in (word.partition("=") for word in words)}


def ids(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split(","))


class Transcript:
    """Runs the commands of one file; `run` gives its text with the outcomes as they are."""

    def __init__(self) -> None:
        self.pair = ReplicaPair()
        self._commands: dict[str, Callable[[list[str]], None]] = {
            "decide": self._decide,
            "produce": self._produce,
            "fetch": self._fetch,
            "ask": lambda words: self.pair.ask(int(words[0])),
            "restart": self._restart,
            "show": lambda _: None,
        }
        self._heard: list[str] = []
        for broker_id, node in self.pair.nodes.items():
            self._listen(broker_id, node)

    def _listen(self, broker_id: int, node: Node) -> None:
        happens = node.happens

        def heard(event: object, batches: tuple[object, ...] = ()) -> object:
            effects = happens(event, batches)  # type: ignore[arg-type]
            self._heard += [f"{broker_id}: {effect}" for effect in effects]
            return effects

        node.happens = heard  # type: ignore[method-assign, assignment]

    def _decide(self, words: list[str]) -> None:
        said = options(words)
        to = ids(said["to"]) if "to" in said else None
        unclean_epoch = int(said.get("unclean", "0"))
        self.pair.decide(
            int(said["leader"]), int(said["epoch"]), isr=ids(said["isr"]), to=to, unclean_epoch=unclean_epoch
        )

    def _fetch(self, words: list[str]) -> None:
        self.pair.fetch(int(words[0]))

    def _produce(self, words: list[str]) -> None:
        self.pair[int(words[0])].produces(*words[1:])

    def _restart(self, words: list[str]) -> None:
        said = options(words[1:])
        self.pair[int(words[0])].restarts(lost_records=int(said.get("lost", "0")))

    def _show(self) -> list[str]:
        lines = []
        for broker_id, node in self.pair.nodes.items():
            log = " ".join(f"{batch.value}@{batch.span.leader_epoch}" for batch in node.log) or "(empty)"
            state = node.state
            lines.append(
                f"{broker_id}: {state.role.name} epoch={state.leader_epoch} hw={state.high_watermark} {log}"
            )
        return lines

    def outcome(self, command: str) -> list[str]:
        """Give one command; what followed from it."""
        self._heard.clear()
        name, *words = command.split()
        self._commands[name](words)
        return self._show() if name == "show" else list(self._heard) or ["(nothing)"]

    def run(self, text: str) -> str:
        """The text with the outcomes that its commands have now."""
        told: list[str] = []
        for block in text.strip().split("\n\n"):
            lines = block.split("\n")
            comments = [line for line in lines if line.startswith("#")]
            said = [line for line in lines if not line.startswith("#")]
            told += comments
            if said:
                told += [said[0], "----", *self.outcome(said[0])]
            told.append("")
        return "\n".join(told)
