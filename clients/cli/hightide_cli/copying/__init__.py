"""The work of one run of `hightide topic copy`, and its notes for the next one."""
