"""vLLM: launch, client, log, nodes, dry run."""
