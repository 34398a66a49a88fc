"""The documents of the commands that operate a cluster, as `-o json` prints them."""

from hightide_cli.documents import values
from hightide_cli.documents.cluster import (
    BrokerDocument,
    ClusterDocument,
    ContextDocument,
    ControllerDocument,
    FindingsDocument,
    GroupPaceDocument,
    HealthDocument,
    LogDirectoryDocument,
    OfflineCount,
    SecuredDocument,
    ServerDocument,
    ServerSettingsDocument,
    TopicSettingDocument,
    TrafficDocument,
    UnderMinIsrCount,
    UnderReplicatedCount,
    ZnodeDocument,
)
from hightide_cli.documents.contract import MessageDocument, MethodDocument
from hightide_cli.documents.form import (
    Document,
    field_of,
    fields_of,
    flag,
    many,
    mapping,
    number,
    one,
    text,
    texts,
    whole,
    wholes,
)
from hightide_cli.documents.moves import (
    ElectionDocument,
    MoveDocument,
    OutcomeDocument,
    PlanDocument,
    ProgressDocument,
)
from hightide_cli.documents.quotas import QuotaDocument
from hightide_cli.documents.topics import (
    DRY_RUN,
    PARTITION,
    TOPIC,
)

_OUTCOME = fields_of(OutcomeDocument)
_TO = field_of("to", values.Target)
_THROTTLE = field_of("throttle_bytes_per_s", values.Throttle)
_ELECTION = fields_of(ElectionDocument)
_QUOTA = fields_of(QuotaDocument)
_BROKER = fields_of(BrokerDocument)
_SERVER = one(
    "server", "what the process says of itself; null where it does not answer", *fields_of(ServerDocument)
).or_null
_LOG_DIRECTORY = fields_of(LogDirectoryDocument)
_CONTROLLER = fields_of(ControllerDocument)
_CONTEXT = fields_of(ContextDocument)
_ZNODE = (
    *fields_of(ZnodeDocument),
    text("data", "its value, where it is UTF-8 and was asked for").or_null.optional,
    text("data_base64", "its value where it is not UTF-8").optional,
)
_METHOD = fields_of(MethodDocument)
_MESSAGE = fields_of(MessageDocument)
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
_TRAFFIC = fields_of(TrafficDocument)
_HEALTH_COUNTS = (
    field_of("offline_partitions", OfflineCount),
    field_of("under_replicated_partitions", UnderReplicatedCount),
    field_of("under_min_isr_partitions", UnderMinIsrCount),
)

OPERATING_DOCUMENTS: dict[str, tuple[Document, ...]] = {
    "cluster info": (
        Document(
            (
                *fields_of(ClusterDocument),
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
            fields_of(HealthDocument),
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
                many("groups", "those that are furthest behind first", *fields_of(GroupPaceDocument)),
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
    "coordinator show": (
        Document(
            (
                many(
                    "shards",
                    "by number",
                    whole("shard", "its number"),
                    whole("id", "its coordinator; null where there is none").or_null,
                    text("address", "where that is").or_null,
                ),
                many("standbys", "by id", whole("id", "its id"), text("address", "where it is")),
            ),
            "Who coordinates the groups.",
        ),
    ),
    "coordinator resign": (
        Document(
            (DRY_RUN, whole("id", "the coordinator"), wholes("shards", "what it gave up, or would")),
            "What a coordinator gave up.",
        ),
    ),
    "config get": (
        Document(
            (TOPIC, many("settings", "by name", *fields_of(TopicSettingDocument))), "Settings of a topic."
        ),
    ),
    "config set": (
        Document(
            (
                DRY_RUN,
                TOPIC,
                many(
                    "changed",
                    "the settings that were meant",
                    *fields_of(TopicSettingDocument),
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
                    *fields_of(ServerSettingsDocument),
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
                text(
                    "tls_ca", "the CAs that may sign the certificates of servers; null for plaintext"
                ).or_null,
                text("tls_certificate", "the certificate for clients; null where none is used").or_null,
                text("tls_key", "the key of that").or_null,
                text("token_file", "the file of the bearer token; null where none is used").or_null,
                text("origin", "why it is this cluster"),
            ),
            "The cluster that is meant.",
            when="without a NAME",
        ),
    ),
    "context rm": (Document(_CONTEXT, "The context that went."),),
    "reassign plan": (
        Document(
            fields_of(PlanDocument),
            "The plan, as `reassign apply` reads it.",
        ),
    ),
    "reassign apply": (
        Document(
            (
                DRY_RUN,
                many("partitions", "those of the plan", *_OUTCOME),
                field_of("bytes_to_move", values.BytesToMove),
            ),
            "What was begun; with --watch, the documents of `reassign watch` follow.",
        ),
    ),
    "reassign watch": (
        Document(
            fields_of(ProgressDocument),
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
            (many("reassignments", "the moves under way", *fields_of(MoveDocument)), _THROTTLE),
            "Moves that are not done.",
        ),
    ),
    "reassign throttle": (Document((_THROTTLE,), "The speed limit."),),
    "reassign cancel": (
        Document((DRY_RUN, many("partitions", "those that were meant", *_OUTCOME)), "What was taken back."),
    ),
    "quota ls": (Document((many("quotas", "by principal", *_QUOTA),), "All quotas."),),
    "quota set": (Document((DRY_RUN, *_QUOTA), "The quota of the principal after the change."),),
    "quota rm": (Document((DRY_RUN, *_QUOTA), "The quota of the principal, without limits."),),
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
            (text("bootstrap", "the addresses that were tried"), *fields_of(FindingsDocument)),
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
    "zk secure": (Document(fields_of(SecuredDocument), "The ACLs of a cluster's znodes."),),
    "rpc ls": (
        Document((texts("services", "their full names"),), "What a server offers.", when="without a service"),
        Document((many("methods", "of the service", *_METHOD),), "Its methods.", when="with a service"),
    ),
    "rpc describe": (
        Document((many("methods", "of the service", *_METHOD),), "A service.", when="of a service"),
        Document(
            (*_METHOD, many("messages", "request and response", *_MESSAGE)),
            "A method.",
            when="of a method",
        ),
        Document(_MESSAGE, "A message.", when="of a message"),
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
                    "error", "why no server answers; null if one does; absent with --client"
                ).or_null.optional,
            ),
            "Versions.",
        ),
    ),
}
