"""Writing to topics: `writer` is what Spark calls, `task` what one Spark task does, `partition_writer` what
one log partition gets of it."""
