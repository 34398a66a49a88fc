"""The errors that coordinators of consumer groups answer with; part of the catalogue of `hightide.errors`."""

from hightide.errors.base import ServerError
from hightide.v1 import errors_pb2


class NotCoordinatorError(ServerError):
    """The coordinator that was asked is not the active one for the group."""

    code = errors_pb2.ERROR_CODE_NOT_COORDINATOR
    retriable = True
    refresh_metadata = True


class CoordinatorLoadingError(ServerError):
    """The coordinator is still reading the state of the groups that it takes over."""

    code = errors_pb2.ERROR_CODE_COORDINATOR_LOADING
    retriable = True


class UnknownGroupError(ServerError):
    """No group has this name."""

    code = errors_pb2.ERROR_CODE_UNKNOWN_GROUP
    next_step = "`hightide group ls` lists the groups."


class InvalidGroupNameError(ServerError):
    """The name of a group, consumer or instance is not 1 to 249 characters of [a-zA-Z0-9._-]."""

    code = errors_pb2.ERROR_CODE_INVALID_GROUP_NAME
    next_step = "Take another name."


class ConsumerIdTakenError(ServerError):
    """Another live consumer of the group has this consumer id."""

    code = errors_pb2.ERROR_CODE_CONSUMER_ID_TAKEN
    next_step = "Take another consumer_id, or leave it out; `hightide group describe` shows the members."


class InvalidSessionTimeoutError(ServerError):
    """The session timeout is below or above what the coordinator allows."""

    code = errors_pb2.ERROR_CODE_INVALID_SESSION_TIMEOUT
    next_step = "Set session_timeout_ms within the coordinator's bounds."


class UnknownAssignorError(ServerError):
    """No assignor has this name."""

    code = errors_pb2.ERROR_CODE_UNKNOWN_ASSIGNOR
    next_step = 'The assignors are "range", "roundrobin" and "sticky".'


class InvalidPatternError(ServerError):
    """The pattern is not an RE2 expression, or is too large."""

    code = errors_pb2.ERROR_CODE_INVALID_PATTERN
    next_step = "Patterns are RE2 expressions that match whole topic names."


class UnknownMemberError(ServerError):
    """No member of the group has this member id: it never existed, was declared dead, or has left."""

    code = errors_pb2.ERROR_CODE_UNKNOWN_MEMBER
    next_step = "Register again; the new owner reads again what was not committed."


class FencedGenerationError(ServerError):
    """The partition does not belong to the member in this generation."""

    code = errors_pb2.ERROR_CODE_FENCED_GENERATION
    next_step = "The partition has moved; its new owner reads on from the committed offset."


class FencedInstanceError(ServerError):
    """Another process took over this instance id."""

    code = errors_pb2.ERROR_CODE_FENCED_INSTANCE
    next_step = "Give each process an instance_id of its own."


class GroupNotEmptyError(ServerError):
    """The group has members; the request can only succeed once they are gone."""

    code = errors_pb2.ERROR_CODE_GROUP_NOT_EMPTY
    next_step = "Close its consumers first; `hightide group describe` shows them."


class CommitGoesBackError(ServerError):
    """The offset is lower than the committed one, and the commit does not say that it is a reset."""

    code = errors_pb2.ERROR_CODE_COMMIT_GOES_BACK
    next_step = "Seek back first, or use `hightide group reset-offsets`."


class AnswerOutOfTurnError(ServerError):
    """The consumer answered an order that is not open on its stream."""

    code = errors_pb2.ERROR_CODE_ANSWER_OUT_OF_TURN


class SessionTimedOutError(ServerError):
    """The consumer did not answer, or did not read its stream, for longer than its session timeout."""

    code = errors_pb2.ERROR_CODE_SESSION_TIMED_OUT
    retriable = True


class StaleCoordinatorEpochError(ServerError):
    """The coordinator that was asked is no longer the active one: the client has heard of a later one."""

    code = errors_pb2.ERROR_CODE_STALE_COORDINATOR_EPOCH
    retriable = True
    refresh_metadata = True
