"""Scripts for whoever looks after ropewalk; nothing here is installed."""
