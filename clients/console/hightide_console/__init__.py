"""The console: a cluster in a browser, served on loopback by `hightide console`."""
