"""Who may call which method, and through which listener."""
