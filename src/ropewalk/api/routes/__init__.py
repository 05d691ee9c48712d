"""One file per group of routes: each validates, calls, and dumps."""
