"""`hightide pipeline`: the pipelines on Spark. They do not know this command; spark-submit runs them too."""

import click

from hightide_cli.command_line.choices import choices
from hightide_cli.command_line.client_arguments import hand_on_files
from hightide_cli.command_line.lazy_group import LazyCommand, LazyGroup
from hightide_cli.command_line.options import common_options

_HOME = "hightide_spark.pipelines"
COMMANDS = {
    "archive": LazyCommand(f"{_HOME}.archive", "command", "Write topics as Parquet, each record once."),
    "replay": LazyCommand(f"{_HOME}.replay", "command", "Write an archive back into a topic."),
    "delays": LazyCommand(f"{_HOME}.delays", "command", "Compute how late the flights of a topic leave."),
    "audit": LazyCommand(f"{_HOME}.audit", "command", "Prove that replicas are identical."),
}
_HELP = """Run a pipeline on Spark.

It runs on this machine, unless --master names another Spark. It needs a JDK 17 or later.
"""


class _PipelineGroup(LazyGroup):
    """Passes on the choices made before the command, which the pipelines' own options do not see."""

    def invoke(self, ctx: click.Context) -> object:
        chosen = choices(ctx)
        hand_on_files(chosen.files)

        def bootstrap() -> str:
            # Called only where an address is needed: looking for the cluster of `dev up` takes its time.
            target = chosen.target()
            hand_on_files(target.files)
            return target.bootstrap

        handed_on = {"bootstrap": bootstrap, "output": chosen.output.value}
        ctx.default_map = dict.fromkeys(COMMANDS, handed_on)
        return super().invoke(ctx)


pipeline = common_options(_PipelineGroup(table=COMMANDS, name="pipeline", help=_HELP))
