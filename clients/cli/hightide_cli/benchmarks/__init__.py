"""`hightide bench`: what is measured, by which process, and how the figures are put together."""
