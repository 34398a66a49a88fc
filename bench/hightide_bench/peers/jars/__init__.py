"""The jars of Apache Kafka and of Spark's Kafka source, from Maven."""
