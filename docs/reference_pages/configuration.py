"""docs/reference/configuration.md."""

from reference_pages import clients, services, topic_settings
from reference_pages.markdown import page


def text() -> str:
    """The page."""
    return page(
        "Configuration",
        """Services take flags, or environment variables, in which `…` stands for `BROKER`, `CONTROLLER` or
        `COORDINATOR`. A flag wins over the environment. `--help` of each program lists the same. Times end
        with their unit.""",
        *services.sections(),
        topic_settings.section(),
        "## The Python SDK\n\n`hightide.aio` has the same classes with the same arguments.",
        *clients.sdk_sections(),
        "## Spark\n\nOptions are read without regard to case. An unknown one is refused. Kafka's options, "
        "whose names begin with `kafka.`, have [a table of their own](../spark.md#options-of-kafka).",
        clients.spark_section(),
    )
