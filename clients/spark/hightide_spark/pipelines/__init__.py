"""Whole programs on Spark: archive, replay, delays, audit; for `hightide pipeline …` and spark-submit."""
