"""Facts and a request to a plan. Pure: no files, no clock, no network, no engine."""
