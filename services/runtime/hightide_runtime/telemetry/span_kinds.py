"""All spans that Hightide writes: their names, their writers, their meanings and their attributes.

docs/reference/traces.md is generated from the tables at the end, and tests compare the services with them.
The names of a failover's steps are those of V3's "End-to-end latency during a broker failure".
"""

from dataclasses import dataclass
from typing import Final

#: Roots. Each kind of traces has one, and its name is that of the kind.
FAILOVER: Final = "failover"
CONTROLLER_FAILOVER: Final = "controller_failover"
COORDINATOR_FAILOVER: Final = "coordinator_failover"
GROUP_REBALANCE: Final = "group_rebalance"
TOPIC_CREATION: Final = "topic_creation"
TOPIC_DELETION: Final = "topic_deletion"
REASSIGNMENT: Final = "reassignment"
STATE_CHANGE: Final = "state_change"

#: Steps of a broker's failover that no other trace has.
BROKER_DOWN: Final = "failover.broker_down"
BROKER_WATCHER_TRIGGERED: Final = "failover.broker_watcher_triggered"
LEADERSHIP_CHANGE: Final = "failover.leadership_change"
CONTROLLER_REPLACED: Final = "failover.controller_replaced"

#: All traces in which the controller decides about leaders have these.
ZOOKEEPER_MULTI: Final = "zookeeper_multi"
INFORM_BROKER: Final = "inform_broker"
BECOME_LEADER: Final = "become_leader"
FOLLOWERS_CONNECT: Final = "followers_connect"
FIRST_COMMIT: Final = "first_commit"
BECOME_FOLLOWER: Final = "become_follower"
TRUNCATE_LOG: Final = "truncate_log"

CONTROLLER_DETECTION: Final = "controller_failover.detection"
CONTROLLER_ELECTION: Final = "controller_failover.election"
CONTROLLER_LOAD: Final = "controller_failover.load"
CONTROLLER_ADOPT: Final = "controller_failover.adopt"
CONTROLLER_FAN_OUT: Final = "controller_failover.fan_out"

COORDINATOR_DETECTION: Final = "coordinator_failover.detection"
COORDINATOR_ELECTION: Final = "coordinator_failover.election"
COORDINATOR_LOAD: Final = "coordinator_failover.load"
COORDINATOR_RECOVERY: Final = "coordinator_failover.recovery"

REBALANCE_STOP: Final = "group_rebalance.stop"
REBALANCE_COMMIT: Final = "group_rebalance.commit"
REBALANCE_OWNERS: Final = "group_rebalance.owners"
REBALANCE_START: Final = "group_rebalance.start"

TOPIC_ZNODES: Final = "topic_creation.znodes"
DELETION_ZNODES: Final = "topic_deletion.znodes"
DELETION_STOP: Final = "topic_deletion.stop_replicas"

STATE_CHANGE_RECEIVED: Final = "state_change.received"
STATE_CHANGE_COMPLETED: Final = "state_change.completed"

MOVE_BEGIN: Final = "reassignment.begin"
MOVE_CATCH_UP: Final = "reassignment.catch_up"
MOVE_SWITCH: Final = "reassignment.switch"
MOVE_STOP: Final = "reassignment.stop_old_replicas"

REQUEST: Final = "request"

SEND: Final = "send"
POLL: Final = "poll"
STOP_PARTITIONS: Final = "stop partitions"
START_PARTITIONS: Final = "start partitions"
COMMAND: Final = "hightide"

CONTROLLER: Final = "controller"
BROKER: Final = "broker"
COORDINATOR: Final = "coordinator"
CLIENT: Final = "client"


@dataclass(frozen=True, slots=True)
class SpanKind:
    """The declaration of one kind of spans. The names of clients' spans may end with a topic: `send
    flights`."""

    name: str
    service: str
    """The writer: controller, broker, coordinator or client."""
    description: str


@dataclass(frozen=True, slots=True)
class SpanAttribute:
    """The declaration of one attribute of spans."""

    name: str
    type: str
    """text, number, or true/false."""
    description: str
    is_of_beginning: bool = False
    """Whether, if two processes wrote a root, the value of the first one is valid, and not that of the last
    one."""


#: The kinds of trace, by the name of their root.
TRACE_KINDS: Final = (
    FAILOVER,
    CONTROLLER_FAILOVER,
    COORDINATOR_FAILOVER,
    GROUP_REBALANCE,
    TOPIC_CREATION,
    TOPIC_DELETION,
    REASSIGNMENT,
    STATE_CHANGE,
)

SPANS: Final[tuple[SpanKind, ...]] = (
    SpanKind(
        FAILOVER,
        CONTROLLER,
        "Root. A broker was lost, from the break until every live broker has acknowledged the new leaders; "
        "also more than one, where the others go before its new leaders are stored. A "
        "controller that carries on what another one began writes the root too: the same span, ending later.",
    ),
    SpanKind(BROKER_DOWN, CONTROLLER, "Step 1: from the break until the controller noticed it."),
    SpanKind(
        BROKER_WATCHER_TRIGGERED, CONTROLLER, "Step 2: from there until the controller began to act on it."
    ),
    SpanKind(LEADERSHIP_CHANGE, CONTROLLER, "Step 3: until the last new leader and ISR stood in ZooKeeper."),
    SpanKind(
        CONTROLLER_REPLACED,
        CONTROLLER,
        "The controller was lost in the midst of it: until another one was elected and had read everything.",
    ),
    SpanKind(ZOOKEEPER_MULTI, CONTROLLER, "One multi with up to a thousand leaderAndISR znodes."),
    SpanKind(
        INFORM_BROKER,
        CONTROLLER,
        "Step 4: one round of LeaderAndISR, StopReplica and UpdateMetadata to one broker.",
    ),
    SpanKind(BECOME_LEADER, BROKER, "A broker took over the leadership of the partitions of one request."),
    SpanKind(
        FOLLOWERS_CONNECT,
        BROKER,
        "Step 5: the new leader waits for the followers in the ISR; ends at the first commit.",
    ),
    SpanKind(
        FIRST_COMMIT, BROKER, "The moment of the first commit under the new epoch, if there is anything."
    ),
    SpanKind(BECOME_FOLLOWER, BROKER, "Step 6: a broker follows the new leaders of the partitions."),
    SpanKind(TRUNCATE_LOG, BROKER, "Inside of step 6: the end of a log that the new leader lacks is cut."),
    SpanKind(
        CONTROLLER_FAILOVER,
        CONTROLLER,
        "Root. Another controller took over, from the break until every live broker has acknowledged it.",
    ),
    SpanKind(CONTROLLER_DETECTION, CONTROLLER, "Until it was noticed that the active controller is gone."),
    SpanKind(CONTROLLER_ELECTION, CONTROLLER, "Until this controller was elected under a new epoch."),
    SpanKind(CONTROLLER_LOAD, CONTROLLER, "Until it had read everything from ZooKeeper."),
    SpanKind(CONTROLLER_ADOPT, CONTROLLER, "Until what was not well had been decided and stored."),
    SpanKind(CONTROLLER_FAN_OUT, CONTROLLER, "Until every live broker had acknowledged what holds."),
    SpanKind(COORDINATOR_FAILOVER, COORDINATOR, "Root. Another coordinator took over a shard of the groups."),
    SpanKind(
        COORDINATOR_DETECTION,
        COORDINATOR,
        "Until it was noticed that the coordinator is gone; there is none where nobody on standby saw it go.",
    ),
    SpanKind(COORDINATOR_ELECTION, COORDINATOR, "Until this one was elected under a new epoch."),
    SpanKind(COORDINATOR_LOAD, COORDINATOR, "Until it had read the groups from ZooKeeper."),
    SpanKind(COORDINATOR_RECOVERY, COORDINATOR, "Until no group waits any more for members that it knows."),
    SpanKind(
        GROUP_REBALANCE,
        COORDINATOR,
        "A rebalance of a group. Root of its own trace, or below the coordinator's failover that caused it.",
    ),
    SpanKind(REBALANCE_STOP, COORDINATOR, "Until all who had to have stopped reading what moves."),
    SpanKind(REBALANCE_COMMIT, COORDINATOR, "Until it was known where the partitions are to be read from."),
    SpanKind(REBALANCE_OWNERS, COORDINATOR, "Until owners and offsets were durable in ZooKeeper."),
    SpanKind(REBALANCE_START, COORDINATOR, "Until all new owners have said that they read."),
    SpanKind(
        TOPIC_CREATION,
        CONTROLLER,
        "Root. A topic was created by request, until its leaders have acknowledged.",
    ),
    SpanKind(TOPIC_ZNODES, CONTROLLER, "The multi that creates the topic's znodes."),
    SpanKind(
        TOPIC_DELETION,
        CONTROLLER,
        "Root. A topic was deleted by request, until brokers have stopped its replicas.",
    ),
    SpanKind(DELETION_ZNODES, CONTROLLER, "One multi that takes znodes of the topic away."),
    SpanKind(DELETION_STOP, CONTROLLER, "Until every live broker has stopped its replicas."),
    SpanKind(
        REASSIGNMENT,
        CONTROLLER,
        "Root. Partitions moved to other brokers, of one request, until the old replicas have stopped.",
    ),
    SpanKind(MOVE_BEGIN, CONTROLLER, "Until the new replicas stood in ZooKeeper beside the old ones."),
    SpanKind(MOVE_CATCH_UP, CONTROLLER, "Until the new replicas of a partition were in the ISR."),
    SpanKind(MOVE_SWITCH, CONTROLLER, "Until ZooKeeper named the new replicas of a partition alone."),
    SpanKind(MOVE_STOP, CONTROLLER, "Until every live broker knew, and the old replicas had stopped."),
    SpanKind(
        STATE_CHANGE,
        BROKER,
        "Root, in a cluster without a controller. A broker requested state changes of others, until they "
        "were in their queues.",
    ),
    SpanKind(STATE_CHANGE_RECEIVED, BROKER, "The moment when a broker found them in its queue."),
    SpanKind(STATE_CHANGE_COMPLETED, BROKER, "Until it had obeyed, and they were out of its queue."),
    SpanKind(
        REQUEST,
        CONTROLLER,
        "A request of an operator whose program traces: below the caller's span, it names the trace that it "
        "began.",
    ),
    SpanKind(
        SEND,
        CLIENT,
        "A producer waited for a leader change: from the first refusal to the first success. "
        "Its name ends with the topic.",
    ),
    SpanKind(
        POLL,
        CLIENT,
        "A consumer waited for a leader change: from the first refusal to the first success. "
        "Its name ends with the topic.",
    ),
    SpanKind(STOP_PARTITIONS, CLIENT, "A member of a group stops reading partitions, in a rebalance."),
    SpanKind(START_PARTITIONS, CLIENT, "A member of a group begins to read partitions, in a rebalance."),
    SpanKind(
        COMMAND,
        CLIENT,
        "Root. A command of an operator whose environment says that it is traced. "
        "Its name ends with the command.",
    ),
)

ATTRIBUTES: Final[tuple[SpanAttribute, ...]] = (
    SpanAttribute(
        "reason",
        "text",
        "What began it: process_died, pings_unanswered, session_ended, controlled_shutdown, …",
        is_of_beginning=True,
    ),
    SpanAttribute("broker_id", "number", "The broker that is told."),
    SpanAttribute("broker_epoch", "number", "The life of the broker that is told."),
    SpanAttribute(
        "broker_ids",
        "text",
        "The brokers that it is about, separated by commas.",
        is_of_beginning=True,
    ),
    SpanAttribute("broker_epochs", "text", "The broker epochs that go with them.", is_of_beginning=True),
    SpanAttribute(
        "incarnation", "number", "Which life of the lost broker's process it was.", is_of_beginning=True
    ),
    SpanAttribute("controller_epoch", "number", "The epoch under which the controller acts."),
    SpanAttribute("controller_id", "number", "The controller that acts."),
    SpanAttribute("lost_controller_id", "number", "The controller that is gone."),
    SpanAttribute("lost_controller_epoch", "number", "The epoch that ended."),
    SpanAttribute("coordinator_epoch", "number", "The epoch under which the coordinator acts."),
    SpanAttribute("previous_coordinator", "number", "The coordinator that is gone."),
    SpanAttribute("shard", "number", "The shard of the groups."),
    SpanAttribute("cause", "text", "Why a coordinator was elected: process_died, session_ended, vacant."),
    SpanAttribute("topic", "text", "The topic."),
    SpanAttribute("topic_id", "text", "Its id, 32 hexadecimal digits."),
    SpanAttribute("partition", "text", "One partition, as topic-number."),
    SpanAttribute("partition_count", "number", "How many partitions it is about."),
    SpanAttribute("partition_sample", "text", "The names of up to ten of them, separated by commas."),
    SpanAttribute("leader_sample", "text", "Their leaders, each with its epoch: `flights-0: 2 in 7`."),
    SpanAttribute("move_sample", "text", "Where they move: `flights-0 to 2,3`."),
    SpanAttribute("leader_epoch", "number", "The leader epoch; of several partitions the highest."),
    SpanAttribute("high_watermark", "number", "The high watermark at the first commit."),
    SpanAttribute(
        "waited_for_traffic_ms",
        "number",
        "How long a new leader was sent nothing that it could commit.",
    ),
    SpanAttribute("committed", "true/false", "False: leadership was lost before anything was committed."),
    SpanAttribute("outcome", "text", "What became of a multi: StoreCommitted, StoreRefused, StoreUnknown."),
    SpanAttribute("detect_ms", "number", "From the break until the controller's core was told."),
    SpanAttribute("elect_ms", "number", "From there until the last decision stood in ZooKeeper."),
    SpanAttribute("zookeeper_ms", "number", "Of that, while a request to ZooKeeper was under way."),
    SpanAttribute("fan_out_ms", "number", "From the first decision sent until the last acknowledgement."),
    SpanAttribute("all_led_ms", "number", "From detection until all that was lost is led again."),
    SpanAttribute("takeover_ms", "number", "Of a controller: from detection until all have acknowledged."),
    SpanAttribute("carried_on", "true/false", "Begun by a controller that was lost, finished by this one."),
    SpanAttribute("trace_id", "text", "The trace that this one belongs to or began."),
    SpanAttribute("method", "text", "The RPC of a request."),
    SpanAttribute("from_offset", "number", "The end of a log before it was cut."),
    SpanAttribute("to_offset", "number", "Its end afterwards."),
    SpanAttribute("state_changes", "text", "What is asked of brokers: start-replica, close-replica, …"),
    SpanAttribute("original", "text", "The brokers that held a partition before its move."),
    SpanAttribute("target", "text", "The brokers that shall hold it."),
    SpanAttribute("group", "text", "The group of consumers."),
    SpanAttribute("groups", "number", "How many groups."),
    SpanAttribute("generation", "number", "The generation of the group."),
    SpanAttribute("members", "number", "How many members."),
    SpanAttribute("state", "text", "The state of the group afterwards."),
    SpanAttribute("failures", "number", "Attempts that failed one after the other."),
    SpanAttribute("waited_ms", "number", "How long a client waited for the leader change."),
    SpanAttribute("messaging.system", "text", "hightide."),
    SpanAttribute("messaging.destination.name", "text", "The topic that a client waited for."),
    SpanAttribute("messaging.client.id", "text", "The client."),
    SpanAttribute("messaging.consumer.group.name", "text", "The group of a member."),
)
