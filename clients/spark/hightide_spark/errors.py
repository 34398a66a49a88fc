"""The errors that the data source itself raises.

Spark wraps every error of a data source in its own traceback, and pickles it on the way. So each
message is one line that stands alone: the problem, the option, topic, partition and value, and the next step.
Errors of the cluster are the SDK's (`hightide.errors`) and pass through unchanged.
"""

from hightide.errors import HightideError


class SparkConnectorError(HightideError):
    """The root of the errors of this package."""


# -- options -------------------------------------------------------------------------------------------------


class OptionError(SparkConnectorError, ValueError):
    """An option of a read or write cannot be used."""


class UnknownOptionError(OptionError):
    """No option has this name."""


class MissingOptionError(OptionError):
    """An option that is needed was not given."""


class InvalidOptionError(OptionError):
    """The value of an option is not one that it may have."""


class ContradictingOptionsError(OptionError):
    """Two options contradict each other, or one has no meaning for this kind of query."""


class NewerSparkNeededError(OptionError):
    """An option needs something that the installed Spark does not have."""


class NoRecordSoLateError(OptionError):
    """A read is to start at a time after which a partition has no record."""

    next_step = "Set startingOffsetsByTimestampStrategy to latest to start such partitions at their end."


class TooManyTasksError(OptionError):
    """The read would be cut into more tasks than a driver should hold."""

    next_step = "Set maxRecordsPerPartition higher, or let a stream take less with maxOffsetsPerTrigger."


class UnsupportedSchemaError(SparkConnectorError, ValueError):
    """The schema names an unknown column, or gives a column another type."""


# -- records that are not there ------------------------------------------------------------------------------


class DataLossError(SparkConnectorError):
    """Records that were to be read do not exist any more. Each kind of loss has a class."""

    next_step = (
        "To go on with the records that are there, set failOnDataLoss to false; to begin anew, start without "
        "this checkpoint."
    )


class RecordsDeletedError(DataLossError):
    """Retention has deleted records before they were read."""


class RecordsLostError(DataLossError):
    """The log ends before records that were committed: an unclean election lost them."""


class TopicRecreatedLossError(DataLossError):
    """The topic was deleted, and another one of its name was created."""


class TopicDeletedLossError(DataLossError):
    """The topic was deleted."""


class PartitionsRemovedLossError(DataLossError):
    """The topic has fewer partitions than before."""


class CorruptBatchReadError(SparkConnectorError):
    """A batch in the log cannot be opened by any reader: its producer made it wrong."""

    next_step = "To leave it out, set ignoreCorruptBatches to true; its records are then in no result."


class UnreadableOffsetsError(SparkConnectorError, ValueError):
    """The offsets of a checkpoint are not those of this data source."""

    next_step = "Start with a checkpoint of its own for each query."
