"""This machine: devices, control groups, the memory of processes, idle cores."""
