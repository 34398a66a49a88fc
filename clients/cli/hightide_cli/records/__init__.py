"""Records as lines of text: reading a topic, writing lines, and where to begin and end."""
