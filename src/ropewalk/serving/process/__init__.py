"""Processes that this program starts and ends: supervisor, groups, detached servers, leftovers, ports."""
