"""Serializers: what turns the keys and values of a program into bytes, and back."""

from hightide.serialization.serializers import (
    Deserializer,
    JsonDeserializer,
    JsonSerializer,
    Place,
    Serializer,
    StringDeserializer,
    StringSerializer,
)

__all__ = [
    "Deserializer",
    "JsonDeserializer",
    "JsonSerializer",
    "Place",
    "Serializer",
    "StringDeserializer",
    "StringSerializer",
]
