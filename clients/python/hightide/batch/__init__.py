"""The record batch: the unit of everything after the producer.

`header` reads and stamps the fixed header and checks a producer's batches, `body` turns columns into a batch
and back, `wire` splices batches into the bulk RPCs. Only `body` imports pyarrow; nothing here imports grpc.
"""
