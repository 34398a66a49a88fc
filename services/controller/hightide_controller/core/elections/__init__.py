"""Elections of leaders, requested or not, and how the decisions are stored."""
