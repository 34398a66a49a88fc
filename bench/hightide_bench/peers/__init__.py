"""Hightide beside Apache Kafka on one machine: `hightide bench peers`."""
