"""The meaning of keys that several documents have."""

from collections.abc import Mapping, Sequence
from typing import Annotated

from hightide_cli.documents.view import Shows

TopicName = Annotated[str, "the topic's name"]
TopicId = Annotated[str, "the id of this very topic, 32 hexadecimal digits; a namesake later has another"]
PartitionNumber = Annotated[int, "the partition's number"]
TopicOfPartition = Annotated[TopicName, Shows("partition.topic")]
NumberOfPartition = Annotated[PartitionNumber, Shows("partition.partition")]
Leader = Annotated[int | None, "the broker that leads; null where the partition is offline"]
LeaderEpoch = Annotated[int, "counts the elections of the partition"]
Replicas = Annotated[Sequence[int], "the brokers that hold it, the preferred leader first"]
Isr = Annotated[Sequence[int], "the brokers that are in sync"]
ErrorCode = Annotated[str | None, "the code of the refusal, as in INVALID_ASSIGNMENT; null where it was done"]
GroupName = Annotated[str, "the group's name"]
DryRun = Annotated[bool, "whether nothing was changed, only checked"]
Configs = Annotated[Mapping[str, str], "the settings that differ from the defaults"]
Reason = Annotated[str | None, "a sentence that says why; null where there is nothing to say"]
Throttle = Annotated[int, "what each broker sends for moves at most; 0: no limit"]
BytesToMove = Annotated[int, "what is to be copied, by the sizes of now"]
Before = Annotated[Sequence[int], "the brokers that held it before"]
Target = Annotated[Sequence[int], "the brokers that shall hold it"]
