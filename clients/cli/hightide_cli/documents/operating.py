"""The documents of the commands that operate a cluster, as `-o json` prints them."""

from hightide_cli.documents.form import Document, flag, many, mapping, number, one, text, texts, whole, wholes
from hightide_cli.documents.topics import (
    DRY_RUN,
    ERROR,
    GROUP,
    ISR,
    LEADER,
    LEADER_EPOCH,
    PARTITION,
    REPLICAS,
    TOPIC,
)

_MESSAGE = text("message", "a sentence that says why; null where there is nothing to say").or_null
_OUTCOME = (TOPIC, PARTITION, ERROR, _MESSAGE)
_FROM = wholes("from", "the brokers that held it before")
_TO = wholes("to", "the brokers that shall hold it")
_THROTTLE = whole("throttle_bytes_per_s", "what each broker sends for moves at most; 0: no limit")
_MOVE = (TOPIC, PARTITION, _FROM, _TO, REPLICAS, ISR, LEADER)
_BYTES_TO_MOVE = whole("bytes_to_move", "what is to be copied, by the sizes of now")
_ELECTION = (
    TOPIC,
    PARTITION,
    LEADER,
    LEADER_EPOCH,
    whole("previous_leader", "who led before; null where nobody did").or_null,
    wholes("previous_isr", "the ISR before an unclean election: what only those held is lost"),
    ERROR,
    text("message", "a sentence on what happened; may be empty"),
    mapping(
        "log_end_offsets", "by broker, how far its log went; only of unclean elections", "integer"
    ).optional,
)
_BROKER = (
    whole("id", "the broker's id"),
    text("address", "where it is; null where it is not registered").or_null,
    flag("alive", "whether the controller counts on it"),
    whole("broker_epoch", "of its registration"),
    whole("leads", "how many partitions it leads"),
    whole("replicas", "how many it holds"),
)
_SERVER = one(
    "server",
    "what the process says of itself; null where it does not answer",
    text("version", "of its software"),
    whole("started_at_ms", "milliseconds since 1970"),
    text("advertised", "the address that it tells others"),
    text("external_advertised", "the one for clients from outside; null where there is none").or_null,
    whole("zookeeper_session_timeout_ms", "as ZooKeeper granted it"),
    number("round_trip_ms", "of this question"),
).or_null
_LOG_DIRECTORY = (
    whole("broker", "the broker's id"),
    whole("log_directory", "counts the broker's directories; null where it does not answer").or_null,
    text("path", "on the broker's machine; null where it is not known").or_null,
    text("state", "how it is"),
    whole("free_bytes", "on its disk; null where it is not known").or_null,
    whole("total_bytes", "of its disk; null where it is not known").or_null,
    _MESSAGE,
)
_CONTROLLER = (
    whole("id", "the controller's id"),
    text("address", "where it is"),
    whole("epoch", "counts the controllers' elections"),
)
_CONTEXT = (
    text("context", "its name"),
    text("bootstrap", "the brokers' addresses"),
    text("zookeeper", "its ZooKeeper; null where none is known").or_null,
    flag("selected", "whether it is the one that is meant unless said"),
)
_SETTING = (
    text("name", "as in min.insync.replicas"),
    text("value", "what holds; null where nothing does").or_null,
    text("default", "what holds unless it is set; null where there is none").or_null,
    text("origin", "where the value comes from"),
    text("meaning", "a sentence; null of settings that this command does not know").or_null,
)
_STANDBY = (
    text("service", "controller or coordinator"),
    whole("id", "its id"),
    text("address", "where it is"),
)
_TRACE = (
    text("trace_id", "32 hexadecimal digits"),
    text("kind", "which kind of work it tells of"),
    text("what", "a title"),
    whole("start_us", "microseconds since 1970"),
    number("took_ms", "from its first moment to its last"),
    text("sentence", "what it comes to; null of kinds that have none").or_null,
    flag("is_least", "whether the sentence tells the least that it can have been").or_null,
    many("parts", "what the sentence adds up", text("name", "of the part"), number("ms", "its time").or_null),
    number("clients_waited_ms", "the longest that a client waited; null where none told").or_null,
)
_ZNODE = (
    text("path", "of the znode"),
    whole("version", "counts its changes"),
    whole("created_zxid", "the transaction that made it"),
    whole("modified_zxid", "the transaction that changed it last"),
    flag("ephemeral", "whether it goes with its session"),
    whole("children", "how many there are"),
    whole("bytes", "of its value"),
    text("data", "its value, where it is UTF-8 and was asked for").or_null.optional,
    text("data_base64", "its value where it is not UTF-8").optional,
)
_METHOD = (
    text("method", "as in hightide.v1.BrokerService/Produce"),
    text("comment", "what the contract says of it; null where it is not one of Hightide's").or_null,
    text("request", "the message that it takes"),
    text("response", "the message that it answers"),
    flag("client_streaming", "whether it takes several"),
    flag("server_streaming", "whether it answers several"),
)
_MESSAGE_FORM = (
    text("message", "its full name"),
    text("comment", "what the contract says of it").or_null,
    many(
        "fields",
        "in the order of the contract",
        text("name", "of the field"),
        whole("number", "by which it is known on the wire"),
        text("type", "as the contract spells it"),
        text("comment", "what the contract says of it").or_null,
    ),
)
_TRAFFIC = (
    number("records_per_s", "written; null at the first look").or_null,
    number("bytes_per_s", "written; null at the first look").or_null,
    whole("size_bytes", "of one replica of each partition"),
)
_HEALTH_COUNTS = (
    whole("offline_partitions", "without a leader"),
    whole("under_replicated_partitions", "with a replica that is not in sync"),
    whole("under_min_isr_partitions", "that acks=all cannot write to"),
)

OPERATING_DOCUMENTS: dict[str, tuple[Document, ...]] = {
    "cluster info": (
        Document(
            (
                text("cluster_id", "the cluster's id"),
                one("controller", "the active one", *_CONTROLLER),
                many("brokers", "by id", *_BROKER),
                whole("topics", "how many there are"),
                whole("partitions", "how many there are"),
                *_HEALTH_COUNTS,
                texts(
                    "coordinators", "the active one of each shard of the groups; null where there is none"
                ).or_null,
                many("standbys", "the controllers and coordinators that are not active", *_STANDBY),
            ),
            "What the controller sees.",
        ),
    ),
    "cluster health": (
        Document(
            (
                flag("healthy", "whether all is well"),
                texts("problems", "what is not, a sentence each, the worst first"),
                whole("controller", "the id of the active one; null where there is none").or_null,
                whole("brokers", "how many are known"),
                wholes("dead_brokers", "those that are not alive"),
                wholes("silent_brokers", "those that are registered and do not answer"),
                whole("topics", "how many there are"),
                whole("partitions", "how many there are"),
                *_HEALTH_COUNTS,
                whole("not_preferred_leaders", "partitions that another than their preferred broker leads"),
                whole("moves_under_way", "reassignments that are not done"),
                texts(
                    "coordinators", "the active one of each shard of the groups; null where there is none"
                ).or_null,
                texts("silent_coordinators", "the addresses of those that do not answer"),
                _THROTTLE,
                many(
                    "failed_log_directories",
                    "those that their brokers cannot use",
                    whole("broker", "the broker's id"),
                    whole("log_directory", "counts the broker's directories"),
                    whole("replicas", "how many live there"),
                ),
                many(
                    "complaints",
                    "what the controller cannot make sense of",
                    text("subject", "a znode, a partition or a broker"),
                    text("message", "a sentence with the next step"),
                ),
            ),
            "How well the cluster is; with --watch, one a look.",
        ),
        Document(
            (flag("healthy", "false"), texts("problems", "what is not well, a sentence each")),
            "That nobody could tell.",
            when="where no controller answers",
        ),
    ),
    "top": (
        Document(
            (
                text("cluster_id", "the cluster's id"),
                whole("controller", "the id of the active one"),
                whole("topics", "how many there are"),
                whole("partitions", "how many there are"),
                *_HEALTH_COUNTS,
                whole("moves_under_way", "reassignments that are not done"),
                one("total", "of all topics", *_TRAFFIC),
                many(
                    "brokers",
                    "by id",
                    whole("broker", "the broker's id"),
                    flag("alive", "whether the controller counts on it"),
                    flag("silent", "whether it did not answer"),
                    whole("leads", "how many partitions it leads"),
                    whole("replicas", "how many it holds"),
                    *_TRAFFIC,
                ),
                many("by_topic", "the busiest first", TOPIC, whole("partitions", "how many"), *_TRAFFIC),
                many(
                    "groups",
                    "those that are furthest behind first",
                    GROUP,
                    text("state", "as of `group ls`"),
                    whole("members", "how many there are"),
                    whole("lag", "of all partitions together; null where it was not asked").or_null,
                    number("records_per_s", "read; null at the first look").or_null,
                ),
            ),
            "A look.",
            is_stream=True,
        ),
    ),
    "broker ls": (Document((many("brokers", "by id", *_BROKER),), "All brokers."),),
    "broker describe": (
        Document(
            (
                *_BROKER,
                _SERVER,
                many("log_directories", "its own", *_LOG_DIRECTORY),
                many(
                    "held",
                    "its replicas; only with --replicas",
                    TOPIC,
                    PARTITION,
                    flag("leads", "whether this one leads"),
                    whole("log_start_offset", "the first offset"),
                    whole("high_watermark", "up to where it knows records to be committed"),
                    whole("log_end_offset", "the next offset"),
                    whole("bytes", "on disk"),
                    whole("log_directory", "counts the broker's directories"),
                    flag("failed", "whether its directory cannot be used"),
                ).optional,
            ),
            "One broker.",
        ),
    ),
    "broker log-dirs": (
        Document((many("log_directories", "by broker", *_LOG_DIRECTORY),), "Log directories and their room."),
    ),
    "broker drain": (
        Document(
            (
                DRY_RUN,
                whole("broker", "the broker's id"),
                whole("led", "how many partitions it led"),
                whole("remaining", "how many it leads still, or would"),
                many("without_another_in_sync", "partitions that nobody else can lead", TOPIC, PARTITION),
            ),
            "What became of its partitions.",
        ),
    ),
    "controller show": (Document((*_CONTROLLER, _SERVER), "The active controller."),),
    "controller resign": (
        Document(
            (
                DRY_RUN,
                one(
                    "resigned",
                    "who stepped down, or would",
                    whole("id", "its id"),
                    whole("epoch", "its epoch"),
                ),
                one("controller", "who was elected; null with --dry-run", *_CONTROLLER).or_null,
                number("took_ms", "until the new one answered; null with --dry-run").or_null,
            ),
            "Who reigns now.",
        ),
    ),
    "config get": (Document((TOPIC, many("settings", "by name", *_SETTING)), "Settings of a topic."),),
    "config set": (
        Document(
            (
                DRY_RUN,
                TOPIC,
                many(
                    "changed",
                    "the settings that were meant",
                    *_SETTING,
                    text("previous", "the value before; null where there was none").or_null,
                ),
            ),
            "What was changed.",
        ),
    ),
    "config show": (
        Document(
            (
                many(
                    "servers",
                    "brokers, controllers, coordinators, by id; or those that were named",
                    text("service", "broker, controller or coordinator"),
                    text("instance", "its id; null where it is not known").or_null,
                    text("address", "where it was asked"),
                    text("error", "why it does not answer; null where it does").or_null,
                    many(
                        "settings",
                        "by name",
                        text("name", "as on its command line, as in log-level"),
                        text("value", "what holds; null where nothing does").or_null,
                        text("default", "what holds unless it is told; null where nothing does").or_null,
                        text("origin", "default, environment or argument"),
                        text("variable", "of its environment, which says the same"),
                        text("meaning", "a sentence"),
                    ),
                ),
            ),
            "The settings of running servers.",
        ),
    ),
    "context add": (Document(_CONTEXT, "The new context."),),
    "context ls": (Document((many("contexts", "by name", *_CONTEXT),), "All contexts."),),
    "context select": (Document(_CONTEXT, "The context that is selected now."),),
    "context show": (
        Document(_CONTEXT, "The context.", when="with a NAME"),
        Document(
            (
                text("context", "its name; null where none was named").or_null,
                text("bootstrap", "the brokers' addresses"),
                text("zookeeper", "its ZooKeeper; null where none is known").or_null,
                text("origin", "why it is this cluster"),
            ),
            "The cluster that is meant.",
            when="without a NAME",
        ),
    ),
    "context rm": (Document(_CONTEXT, "The context that went."),),
    "reassign plan": (
        Document(
            (
                whole("version", "1"),
                many(
                    "partitions",
                    "those that move",
                    TOPIC,
                    PARTITION,
                    wholes("replicas", "the brokers that shall hold it, the preferred leader first"),
                    _FROM,
                    _BYTES_TO_MOVE,
                ),
                many(
                    "brokers",
                    "what it means for each",
                    whole("broker", "the broker's id"),
                    mapping("replicas", "how many, `from` and `to`", "integer"),
                    mapping("preferred_leaders", "how many, `from` and `to`", "integer"),
                    whole("bytes_to_receive", "what it gets"),
                    whole("bytes_to_send", "what it sends"),
                ),
                _BYTES_TO_MOVE,
            ),
            "The plan, as `reassign apply` reads it.",
        ),
    ),
    "reassign apply": (
        Document(
            (DRY_RUN, many("partitions", "those of the plan", *_OUTCOME), _BYTES_TO_MOVE),
            "What was begun; with --watch, the documents of `reassign watch` follow.",
        ),
    ),
    "reassign watch": (
        Document(
            (
                many(
                    "moves",
                    "what is on the move",
                    TOPIC,
                    PARTITION,
                    _FROM,
                    _TO,
                    whole("bytes_done", "of the new replicas"),
                    whole("bytes_total", "of the new replicas"),
                    many(
                        "copies",
                        "the new replicas",
                        whole("broker", "the broker's id"),
                        whole("bytes_done", "what it has"),
                        whole("bytes_total", "what it shall have"),
                        whole("offset", "up to where it has come"),
                        whole("end_offset", "up to where it has to come"),
                        flag("in_sync", "whether it is in sync"),
                    ),
                ),
                whole("moves_done", "how many have ended since the first look"),
                whole("bytes_done", "of all"),
                whole("bytes_total", "of all"),
                number("bytes_per_s", "the pace; null until it is known").or_null,
                number("seconds_left", "null where it is not known").or_null,
            ),
            "A look.",
            is_stream=True,
        ),
        Document(
            (
                many(
                    "finished",
                    "the moves that were watched",
                    TOPIC,
                    PARTITION,
                    _TO,
                    wholes("replicas", "where it is now; null where it is deleted").or_null,
                    flag("arrived", "whether that is where it was meant to be"),
                ),
            ),
            "How the moves ended.",
            when="at the end",
        ),
    ),
    "reassign ls": (
        Document(
            (many("reassignments", "what is on the move", *_MOVE), _THROTTLE), "Moves that are not done."
        ),
    ),
    "reassign throttle": (Document((_THROTTLE,), "The speed limit."),),
    "reassign cancel": (
        Document((DRY_RUN, many("partitions", "those that were meant", *_OUTCOME)), "What was taken back."),
    ),
    "elect preferred": (Document((DRY_RUN, many("elections", "by partition", *_ELECTION)), "Elections."),),
    "elect unclean": (Document((DRY_RUN, many("elections", "the one", *_ELECTION)), "The election."),),
    "trace ls": (
        Document(
            (many("traces", "the latest last", *_TRACE, whole("spans", "how many")),), "What was traced."
        ),
    ),
    "trace show": (
        Document(
            (
                *_TRACE,
                many(
                    "spans",
                    "by their starts",
                    text("trace_id", "of the trace"),
                    text("span_id", "16 hexadecimal digits"),
                    text("parent_id", "the span that caused it; empty of the first"),
                    text("name", "what was done"),
                    text("service", "which service wrote it"),
                    text("instance", "which one of them"),
                    whole("start_us", "microseconds since 1970"),
                    whole("end_us", "microseconds since 1970"),
                    flag("ok", "whether it was done without an error"),
                    mapping("attributes", "what is known of it", "any"),
                ),
            ),
            "One trace.",
        ),
    ),
    "doctor": (
        Document(
            (
                text("bootstrap", "the addresses that were tried"),
                text("verdict", "the worst of all: ok, warn or fail"),
                many(
                    "findings",
                    "in the order of the checks",
                    text("check", "what was looked at"),
                    text("verdict", "ok, warn or fail"),
                    text("message", "a sentence"),
                    text("next_step", "what to do; null where nothing is").or_null,
                ),
            ),
            "What is wrong between this machine and the cluster.",
        ),
    ),
    "zk tree": (
        Document(
            (
                text("path", "where it begins"),
                flag("truncated", "whether there was more than was asked for"),
                many("znodes", "in the order of their paths", *_ZNODE),
            ),
            "What lies below a path.",
        ),
    ),
    "zk get": (Document(_ZNODE, "One znode."),),
    "rpc ls": (
        Document((texts("services", "their full names"),), "What a server offers.", when="without a service"),
        Document((many("methods", "of the service", *_METHOD),), "Its methods.", when="with a service"),
    ),
    "rpc describe": (
        Document((many("methods", "of the service", *_METHOD),), "A service.", when="of a service"),
        Document(
            (*_METHOD, many("messages", "request and response", *_MESSAGE_FORM)),
            "A method.",
            when="of a method",
        ),
        Document(_MESSAGE_FORM, "A message.", when="of a message"),
        Document(
            (text("enum", "its full name"), mapping("values", "the number of each", "integer")),
            "An enum.",
            when="of an enum",
        ),
    ),
    "version": (
        Document(
            (
                text("client", "the version of this command"),
                many(
                    "servers",
                    "each process of the cluster; absent with --client",
                    text("service", "broker, controller or coordinator"),
                    text("instance", "its id; null where it is not known").or_null,
                    text("address", "where it is"),
                    text("version", "null where it does not answer").or_null,
                    whole("started_at_ms", "milliseconds since 1970; null where it does not answer").or_null,
                    text("error", "why it does not answer; null where it does").or_null,
                ).optional,
                text(
                    "error", "why nobody answers; null where somebody does; absent with --client"
                ).or_null.optional,
            ),
            "Versions.",
        ),
    ),
}
