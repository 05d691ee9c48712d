"""Has the engine work out its own memory without reading weights, and holds a plan against it.

llama.cpp makes its model and its context without allocating (``no_alloc``, which its own ``--fit`` uses) and
prints every size; vLLM runs its configuration checks and its cache planning on a model without storage.
Both run in a process of their own, a moment for llama.cpp, some ten seconds of imports for vLLM.
"""
