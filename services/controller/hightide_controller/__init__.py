"""The controller: it elects the leader of each partition, and sends the decisions to the brokers."""
