"""Bytes to facts: opens a checkpoint from its headers alone and says what it is.

No weight is loaded, no pickle is opened, no repository code is run.
"""
