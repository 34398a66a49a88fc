"""The quotas of a process, as /config/quotas says from now on."""

from hightide_runtime.quotas.live_quotas import LiveQuotas
from hightide_runtime.znodes.quotas_znode import QuotasZnode
from hightide_runtime.zookeeper.session import ZooKeeperSession
from hightide_runtime.zookeeper.watched_znode import WatchedZnode


def watch_quotas(session: ZooKeeperSession, live: LiveQuotas) -> WatchedZnode[QuotasZnode]:
    """What applies each change of the quotas, once it is started. Mains close it before the session."""
    return WatchedZnode(session, QuotasZnode.path(), QuotasZnode.decode, live.take)
