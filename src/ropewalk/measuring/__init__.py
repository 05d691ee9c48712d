"""What a served model recalls, what memory it took, how long it needed: runs, arms, comparison."""
