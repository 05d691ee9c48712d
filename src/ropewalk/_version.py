"""The version, from one place."""

__version__ = "0.1.0"
