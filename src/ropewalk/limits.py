"""The most of anything foreign that is read, kept or waited for: checkpoints, logs, answers, requests.

Each limit is far above what is seen in practice and low enough that no refused input takes more than half a
gigabyte or ten seconds. What refuses an input names the limit. A format's own limits stand with its reader.
"""

from __future__ import annotations

_KIB, _MIB = 2**10, 2**20

# A checkpoint's JSON documents. A container or a key costs some 60 to 200 bytes in memory and as little as
# two in the file, so both are counted before anything is decoded.
MAX_JSON_BYTES = 64 * _MIB  # the largest index seen has 20 MB (10^12 parameters in packed experts)
MAX_HEADER_BYTES = 100_000_000  # of one file; safetensors 0.8.0, tensor.rs, MAX_HEADER_SIZE
MAX_JSON_VALUES = 4_000_000  # commas, lists and objects of one document: those of 400,000 tensors, and some
MAX_JSON_KEYS = 2_000_000
MAX_CONFIG_BYTES = 32 * _MIB  # config.json and its relatives together; the longest of them have some MB
MAX_CONFIG_VALUES = 2_000_000
MAX_CONFIG_KEYS = 800_000

# A checkpoint's tensors. Kimi-K2 with the scales of its experts has 207,000 with names of 60 characters.
MAX_FILES = 2_000  # that hold its weights; DeepSeek-V3 has 163
MAX_TENSORS = 400_000
MAX_NAME_CHARS = 4_096
MAX_ALL_NAME_CHARS = 20_000_000
MAX_LAYERS = 10_000

# A GGUF's keys.
MAX_GGUF_KEYS = 1 << 16  # a model has 30 to 60
MAX_GGUF_TENSORS = 1 << 17  # DeepSeek-V3 has 1,086
MAX_GGUF_ARRAY_STRINGS = 1 << 24  # in all arrays; a vocabulary of 262,208 with its merges has 800,000
MAX_GGUF_KEY_BYTES = (1 << 16) - 1  # llama.cpp's own
MAX_GGUF_STRING_BYTES = 16 * _MIB  # a chat template has some KB
MAX_GGUF_TEXT_BYTES = 64 * _MIB  # of all single strings
MAX_GGUF_KEPT_NUMBERS = 1 << 20  # in the arrays that are kept: head counts per layer, sliding patterns

# The Hub.
MAX_HUB_SECONDS = 300.0  # for all answers that one checkpoint needs
MAX_HUB_BYTES = MAX_JSON_BYTES + MAX_CONFIG_BYTES  # of the small files that are read whole

# Command lines and logs.
MAX_COMMAND_CHARS = 1 << 18  # ARG_MAX leaves one argument 128 KiB
MAX_COMMAND_WORDS = 1 << 10
MAX_LOG_BYTES = 64 * _MIB  # of a foreign log; what matters is at the start, the rest are requests
MAX_LOG_LINE_CHARS = 1 << 16  # vLLM's line of arguments is the longest

MAX_RECORD_BYTES = 64 * _MIB  # of a plan or a measurement that is compared
MAX_PLAN_BYTES = 16 * _MIB  # of a plan's JSON; a thousand layers over a thousand devices have less

# An engine that runs.
MAX_PRINTED_BYTES = _MIB  # by a program that is asked what it is; vLLM's help has 0.2 MiB
MAX_ENGINE_LOG_READ_BYTES = 32 * _MIB  # at a time
MAX_ENGINE_LOG_LINE_BYTES = 64 * _KIB
MAX_ENGINE_LOG_LINES = 200_000  # a verbose day of serving; older lines tell nothing about the start
MAX_ANSWER_BYTES = 128 * _MIB  # the token ids of a prompt of a million tokens are 8

# The service.
MAX_BODY_BYTES = _MIB
MAX_CONNECTIONS = 512
MAX_HEADER_SECONDS = 10.0  # until a request's head is there
MAX_HUB_READERS = 4  # requests that read from the Hub at once
MAX_HUB_REQUEST_SECONDS = 60.0

MAX_TRIALS = 10_000  # of a cell
MAX_HAYSTACK_BYTES = 64 * _MIB
