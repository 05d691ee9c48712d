"""Tensor columns and settings to facts, layers, counts and findings: pure, no file is read here."""
