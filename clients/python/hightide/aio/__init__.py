"""The asyncio side of the SDK: the same names and the same behaviour as in `hightide`, with await."""

from hightide.aio.admin import Admin
from hightide.aio.consumer import Consumer
from hightide.aio.producer import Producer
from hightide.aio.serializing import DeserializingConsumer, SerializingProducer

__all__ = ["Admin", "Consumer", "DeserializingConsumer", "Producer", "SerializingProducer"]
