"""Runs in vLLM's environment: a GGUF file becomes a folder of safetensors in bfloat16.

``python convert_gguf.py FOLDER FILE TARGET``; needs gguf and accelerate (transformers 5.19).
"""

import sys

import torch  # type: ignore[import-not-found, unused-ignore]
from transformers import (  # type: ignore[import-not-found, unused-ignore]
    AutoModelForCausalLM,
    AutoTokenizer,
    GgufConfig,
)

folder, file, target = sys.argv[1:]
# Without dequantize the blocks stay packed, and a packed model cannot be saved.
unpacked = GgufConfig(gguf_file=file, dequantize=True)
model = AutoModelForCausalLM.from_pretrained(
    folder, gguf_file=file, quantization_config=unpacked, dtype=torch.bfloat16
)
model.save_pretrained(target)
AutoTokenizer.from_pretrained(folder, gguf_file=file).save_pretrained(target)
