"""A plan to a process to a measurement: the only package that starts anything."""
