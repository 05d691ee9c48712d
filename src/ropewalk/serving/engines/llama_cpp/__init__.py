"""llama-server, and the embedded build of it: launch, client, log, dry run."""
