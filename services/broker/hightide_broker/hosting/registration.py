"""The broker's registration in ZooKeeper: /brokers/ids/[id], ephemeral (V3 Paths 2 and section E).

The czxid of the registration is the broker epoch: each life of the broker, and each session of a life, has
another one. The broker registers anew after it lost the session, and after an operator deleted the znode.
Meanwhile it serves what it leads, because no ISR can change without ZooKeeper (V3 discussion 3). The
incarnation counts lives only: leaders check it when they take this broker into an ISR.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from hightide.calls.backoff import Backoff
from hightide_runtime.addresses import HostPort
from hightide_runtime.errors import StartupError
from hightide_runtime.znodes.cluster_znodes import BrokerIncarnationZnode, BrokerZnode, ZnodeGarbage
from hightide_runtime.zookeeper.session import (
    BadVersion,
    ConnectionLost,
    Create,
    Delete,
    InconsistentClusterId,
    NodeExists,
    NoNode,
    SessionExpired,
    SessionState,
    SessionStateChanged,
    WatchFired,
    Znode,
    ZooKeeperError,
    ZooKeeperEvent,
    ZooKeeperRefused,
    ZooKeeperSession,
)

log = logging.getLogger(__name__)

RETRY_S: Final = 0.1
AGAIN: Final = Backoff(initial_ms=50, maximum_ms=5_000)
LASTING_S: Final = 30.0
"""After a registration lasted so long, the next one is not delayed: no other process competes for the id."""


class Registration:
    """Keeps this broker registered. One for each broker; belongs to the event loop's thread."""

    def __init__(
        self,
        session: ZooKeeperSession,
        broker_id: int,
        znode: BrokerZnode,
        on_event: Callable[[ZooKeeperEvent], None] = lambda _: None,
    ) -> None:
        """`on_event` gets each event of the session, which has one reader only: `keep`."""
        self._session = session
        self._on_event = on_event
        self._broker_id = broker_id
        self._znode = znode
        self._content = znode.encode()
        self._registrations = 0
        """How often this life has registered. Each registration has another broker epoch, and its loss
        another trace."""
        self._known = asyncio.Event()
        self._version = 0
        self._stood_since = -LASTING_S
        self._removals = 1
        self._withdrawn = False
        self.path = BrokerZnode.path(broker_id)
        self.incarnation = -1
        """The number of this life, from `begin_life` on."""
        self.broker_epoch = -1
        """The czxid of the last registration. Followers use it also while a new one is being made."""

    async def begin_life(self, patience_s: float) -> None:
        """Take the next incarnation. Called once, before the broker reads what it is in sync for. From then
        on no leader can take it into an ISR for what an earlier life had.

        Before that, wait for another process that is registered under this id, as in `register`. A process
        that was started by mistake must not keep the right one out of its ISRs. Raises ZooKeeperError,
        StartupError.
        """
        await self._until_alone(patience_s)
        path, data = BrokerIncarnationZnode.path(self._broker_id), BrokerIncarnationZnode.encode()
        try:
            self.incarnation = await self._session.set(path, data, -1)
        except NoNode:
            self.incarnation = (await self._session.create(path, data)).version

    async def known(self, timeout_s: float) -> int:
        """Wait until there is a broker epoch. The controller may send requests before the create is answered.

        Raises TimeoutError.
        """
        await asyncio.wait_for(self._known.wait(), timeout_s)
        return self.broker_epoch

    async def until_known(self) -> None:
        """Wait until there is a broker epoch, however long that takes. Called by fetchers before they
        begin."""
        await self._known.wait()

    async def withdraw(self) -> None:
        """Remove the registration. Called last before the session is closed. Never raises."""
        self._withdrawn = True
        try:
            await self._session.delete(self.path)
        except ZooKeeperError as error:
            log.debug("the registration goes with the session: %s", error)

    def lost(self) -> None:
        """Take note that the session expired: later requests of the controller are for the next broker
        epoch."""
        self._known.clear()

    async def register(self, patience_s: float) -> None:
        """Create the ephemeral znode, and retry as often as the connection breaks.

        A registration at our own address belongs to an earlier life, because the port is ours now. It is
        replaced at once. A registration at another address may be another process with the same id. Then wait
        as long as a dead process needs to expire, and raise StartupError that names it.
        """
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + patience_s
        while True:
            try:
                registered = await self._try_register()
                if registered is not None and not await self._watch(registered):
                    registered = None  # gone again
            except InconsistentClusterId:
                raise
            except (ConnectionLost, SessionExpired) as error:
                log.warning("registering broker %d is retried: %s", self._broker_id, error)
                registered = None
            if registered is not None:
                self.broker_epoch = registered.czxid
                self._registrations += 1
                self._version = registered.version
                self._stood_since = loop.time()
                self._known.set()
                log.info("broker %d is registered, broker epoch %d", self._broker_id, registered.czxid)
                return
            if loop.time() > give_up_at:
                await self._refuse_to_share_an_id()
            await asyncio.sleep(RETRY_S)

    async def keep(self, registered_in: int, patience_s: float) -> None:
        """Register anew after a new ZooKeeper session replaced an expired one, or after an operator deleted
        the registration. Runs until it is cancelled, and reads the events of the session.

        `registered_in` is the session in which `register` is called first. Raises StartupError, as `register`
        does.
        """
        while True:
            event = await self._session.events.get()
            self._on_event(event)
            if isinstance(event, SessionStateChanged):
                log.info("ZooKeeper session: %s", event.state.value)
                if event.state is SessionState.LOST:
                    self.lost()
                elif event.state is SessionState.CONNECTED and event.session_id != registered_in:
                    self.lost()
                    await self.register(patience_s)
                    registered_in = event.session_id
                elif event.state is SessionState.CONNECTED:
                    await self._look(patience_s)
            elif self._session.session_id != registered_in:
                continue  # The registration went with its session; the end of that is the next event.
            elif isinstance(event, WatchFired) and event.path == self.path:
                await self._look(patience_s)

    async def _look(self, patience_s: float) -> None:
        """Check whether the registration is still there, and register again if not, as `register` does.

        Called when its watch fired, and when the connection is back, because a lost connection loses all
        watches. Only an operator deletes the znode of a live session. Each repetition waits longer.
        """
        if self._withdrawn or self.broker_epoch == -1:
            return
        try:
            found = await self._session.exists(self.path, watch=True)
            if found is not None and found.czxid == self.broker_epoch:
                await self._mend_content(found)
                return
        except (ConnectionLost, SessionExpired) as error:
            log.debug("the registration is looked at when ZooKeeper is back: %s", error)
            return
        loop = asyncio.get_running_loop()
        lasted = loop.time() - self._stood_since > LASTING_S
        self._removals = 1 if lasted else self._removals + 1
        log.warning(
            "the registration of broker %d was %s by an operator: the broker registers again",
            self._broker_id, "removed" if found is None else "replaced",
        )  # fmt: skip
        self.lost()
        await asyncio.sleep(AGAIN.pause_s(self._removals))
        await self.register(patience_s)

    async def _watch(self, registered: Znode) -> bool:
        """Whether the registration is there; a watch reports its end."""
        found = await self._session.exists(self.path, watch=True)
        return found is not None and found.czxid == registered.czxid

    async def _mend_content(self, found: Znode) -> None:
        """Restore the content of the registration, if an operator changed it: other processes would be
        misled."""
        if found.version == self._version:
            return
        log.warning(
            "the registration of broker %d was changed by an operator: the broker restores it",
            self._broker_id,
        )
        try:
            self._version = await self._session.set(self.path, self._content, found.version)
        except (NoNode, BadVersion, ZooKeeperRefused) as error:
            log.warning("it is not mended: %s", error)

    async def _try_register(self) -> Znode | None:
        """One attempt; None where another registration stands in the way."""
        told = replace(self._znode, incarnation=self.incarnation, registered_before=self._registrations)
        self._content = told.encode()
        path, data = self.path, self._content
        try:
            return await self._session.create(path, data, ephemeral=True)
        except NodeExists:
            pass
        try:
            found = await self._session.get(path)
        except NoNode:
            return None
        if found.ephemeral_owner == self._session.session_id:
            return found  # ours: an earlier attempt whose answer was lost
        if self._is_another_s(found):
            return None
        try:
            await self._session.multi([Delete(path, found.version), Create(path, data, ephemeral=True)])
            log.info("broker %d replaced a registration that is not of this session", self._broker_id)
        except (NoNode, BadVersion, NodeExists):
            return None
        return await self._session.get(path)

    async def _until_alone(self, patience_s: float) -> None:
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + patience_s
        while True:
            try:
                found = await self._session.get(self.path)
            except NoNode:
                return
            if not self._is_another_s(found):
                return
            if loop.time() > give_up_at:
                await self._refuse_to_share_an_id()
            await asyncio.sleep(RETRY_S)

    async def _refuse_to_share_an_id(self) -> None:
        try:
            found = await self._session.get(self.path)
        except (NoNode, ConnectionLost, SessionExpired):
            return  # it is gone, or ZooKeeper is: keep trying
        if found.ephemeral_owner != self._session.session_id:
            raise StartupError(
                f"broker id {self._broker_id} is registered by another process at {self._address_of(found)} "
                f"(znode {self.path}); give this one another --broker-id, or stop that one"
            )

    def _is_another_s(self, found: Znode) -> bool:
        """Whether it may be another process's registration. One at our own address is not, because the port
        is ours. One without a session is not, because an operator made it."""
        is_elsewhere = self._address_of(found) != HostPort(self._znode.host, self._znode.port)
        return is_elsewhere and found.ephemeral_owner != 0

    @staticmethod
    def _address_of(found: Znode) -> HostPort | None:
        try:
            other = BrokerZnode.decode(found.data)
        except ZnodeGarbage:
            return None
        return HostPort(other.host, other.port)
