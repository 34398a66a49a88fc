"""What is the same for topics whoever decides about them: settings, and where replicas of new ones go."""
