"""ISR changes, written by leaders straight to ZooKeeper by conditional set (V3 section G, DESIGN §4).

Changes gather for a moment and go out as few multis (10 us of CPU each instead of 120). A multi in which
one version is stale fails as a whole: its changes are then set one by one, pipelined. The conditional
write is the truth: what was refused is refused, what broke off is told as unknown and read again.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from hightide_runtime.clock import Clock
from hightide_runtime.znodes import LeaderAndIsrZnode, ZnodeGarbage
from hightide_runtime.zookeeper import (
    BadVersion,
    NoNode,
    SetData,
    ZooKeeperError,
    ZooKeeperSession,
    multis_of,
)

from hightide_broker.core.effects import StoreIsr
from hightide_broker.core.events import IsrStored, IsrStoreRefused, IsrStoreUnknown, LeaderAndIsrRead
from hightide_broker.hosted import HostedReplica
from hightide_broker.shell import ReplicaShell
from hightide_broker.storage import StorageError

log = logging.getLogger(__name__)

GATHER_S: Final = 0.01
READ_AGAIN_S: Final = 0.2


class IsrStore:
    """Writes and reads leaderAndISR for this broker's leaders. One task, asleep while there is nothing."""

    def __init__(self, broker_id: int, clock: Clock, session: ZooKeeperSession, shell: ReplicaShell) -> None:
        self._broker_id = broker_id
        self._clock = clock
        self._session = session
        self._shell = shell
        self._to_store: dict[HostedReplica, StoreIsr] = {}
        self._to_read: dict[HostedReplica, None] = {}
        self._stir = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run(), name="isr-store")

    def store(self, replica: HostedReplica, effect: StoreIsr) -> None:
        """Write the ISR if the znode still has the version expected; the outcome is fed to the replica."""
        self._to_store[replica] = effect
        self._stir.set()

    def read(self, replica: HostedReplica) -> None:
        """Read the znode, however often it takes; what it says is fed to the replica."""
        self._to_read[replica] = None
        self._stir.set()

    async def close(self) -> None:
        """Stop; what was not written is decided anew by the next leader."""
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        while True:
            await self._stir.wait()
            await asyncio.sleep(GATHER_S)
            self._stir.clear()
            stores, self._to_store = self._to_store, {}
            reads, self._to_read = self._to_read, {}
            try:
                await self._store_all(stores)
            except Exception:
                # The top of a task: without it no ISR would ever change again.
                log.exception("writing %d ISRs failed; they are read to see what became of them", len(stores))
                self._tell_all_unknown(stores)
            try:
                await self._read_all(list(reads))
            except Exception:
                # Likewise.
                log.exception("reading %d ISRs is repeated", len(reads))
                self._again(list(reads))

    def _tell_all_unknown(self, stores: dict[HostedReplica, StoreIsr]) -> None:
        """No leader may wait for ever for an outcome; those that have theirs do not mind this one."""
        for replica, effect in stores.items():
            try:
                self._feed(replica, IsrStoreUnknown(effect.expected_partition_epoch))
            except Exception:
                # One that cannot hear it must not keep it from the others.
                log.exception("%s: after an ISR change", replica)

    # --- writing ---------------------------------------------------------------------------------

    async def _store_all(self, stores: dict[HostedReplica, StoreIsr]) -> None:
        if not stores:
            return
        by_path = {_path(replica): (replica, effect) for replica, effect in stores.items()}
        groups = [[self._operation(replica, effect)] for replica, effect in stores.items()]
        multis = multis_of(groups, None)
        outcomes = await asyncio.gather(
            *(self._session.submit_multi(multi) for multi in multis), return_exceptions=True
        )
        for multi, outcome in zip(multis, outcomes, strict=True):
            written = [by_path[operation.path] for operation in multi]
            if isinstance(outcome, BaseException):
                await self._after_failure(written, outcome)
                continue
            for (replica, _), version in zip(written, outcome, strict=True):
                self._feed(replica, IsrStored(version))

    async def _after_failure(
        self, written: list[tuple[HostedReplica, StoreIsr]], failure: BaseException
    ) -> None:
        if isinstance(failure, BadVersion | NoNode) and len(written) > 1:
            await asyncio.gather(*(self._store_one(replica, effect) for replica, effect in written))
            return
        for replica, effect in written:
            self._tell_failure(replica, effect, failure)

    async def _store_one(self, replica: HostedReplica, effect: StoreIsr) -> None:
        operation = self._operation(replica, effect)
        try:
            version = await self._session.set(operation.path, operation.data, operation.version)
        except ZooKeeperError as error:
            self._tell_failure(replica, effect, error)
        else:
            self._feed(replica, IsrStored(version))

    def _tell_failure(self, replica: HostedReplica, effect: StoreIsr, failure: BaseException) -> None:
        if isinstance(failure, BadVersion | NoNode):
            log.info("%s: the ISR %s is not written: %s", replica, list(effect.isr), failure)
            self._feed(replica, IsrStoreRefused(effect.expected_partition_epoch))
        elif isinstance(failure, ZooKeeperError):
            log.warning("%s: whether the ISR %s is written is not known: %s", replica, effect.isr, failure)
            self._feed(replica, IsrStoreUnknown(effect.expected_partition_epoch))
        else:
            raise failure

    def _operation(self, replica: HostedReplica, effect: StoreIsr) -> SetData:
        znode = LeaderAndIsrZnode(self._broker_id, effect.leader_epoch, effect.isr, effect.controller_epoch)
        return SetData(_path(replica), znode.encode(), effect.expected_partition_epoch)

    # --- reading ---------------------------------------------------------------------------------

    async def _read_all(self, replicas: list[HostedReplica]) -> None:
        if not replicas:
            return
        try:
            found = await self._session.multi_read([_path(replica) for replica in replicas])
        except ZooKeeperError as error:
            log.warning("reading %d ISRs is repeated: %s", len(replicas), error)
            self._again(replicas)
            return
        for replica in replicas:
            znode = found.get(_path(replica))
            try:
                read = None if znode is None else LeaderAndIsrZnode.decode(znode.data)
            except ZnodeGarbage as error:
                log.error("%s: %s", replica, error)
                read = None
            if znode is None or read is None:
                self._again([replica])
                continue
            self._feed(
                replica,
                LeaderAndIsrRead(
                    read.leader, read.leader_epoch, read.isr, znode.version, self._clock.monotonic_ms()
                ),
            )

    def _again(self, replicas: list[HostedReplica]) -> None:
        def ask_again() -> None:
            for replica in replicas:
                if replica.state.is_leader:
                    self.read(replica)

        asyncio.get_running_loop().call_later(READ_AGAIN_S, ask_again)

    def _feed(
        self,
        replica: HostedReplica,
        event: IsrStored | IsrStoreRefused | IsrStoreUnknown | LeaderAndIsrRead,
    ) -> None:
        try:
            self._shell.feed(replica, event)
        except StorageError as error:
            log.error("%s: after an ISR change: %s", replica, error)


def _path(replica: HostedReplica) -> str:
    return LeaderAndIsrZnode.path(replica.topic, replica.key[1])
