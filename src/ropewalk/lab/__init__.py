"""Attention seen at work on this machine: needs torch, the extra ``lab``."""
