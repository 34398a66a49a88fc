"""The controller: it decides who leads each partition, and tells the brokers."""
