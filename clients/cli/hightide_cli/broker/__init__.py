"""`hightide broker`: the brokers, and what they hold."""
