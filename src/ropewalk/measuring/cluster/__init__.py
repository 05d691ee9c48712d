"""A measurement spread over machines: one task per arm, its record back into the store that began it.

The schedulers are others' (Ray, Slurm): a task is a text that a node turns into a text.
"""
