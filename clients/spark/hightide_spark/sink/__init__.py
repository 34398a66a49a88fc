"""The writing side: Spark calls `writer`, which runs a `task` for each Spark task, which has a
`partition_writer` for each log partition."""
