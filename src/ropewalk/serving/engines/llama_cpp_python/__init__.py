"""The server of llama-cpp-python: launch and client."""
