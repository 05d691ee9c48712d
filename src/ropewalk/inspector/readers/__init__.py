"""Bytes to tensor columns and raw settings: safetensors, GGUF, folders, the Hub. Never a weight."""
