"""Model types whose weights do not follow from the dimensions of a config alone."""

# The estimate is more than 3 % off the parameters of the class with its defaults (transformers 5.24,
# tests/types/test_types.py).
UNTOLD_TYPES = frozenset({
    "aria", "aria_text", "bamba", "beam", "big_bird", "blip", "camembert", "ctrl", "dory", "electra",
    "exaone4_5", "flint", "florence2", "glm46v", "glm5_next", "glmga", "granite_docling", "granite_speech",
    "granite_speech_plus", "hrm_text", "idefics", "inkling_mm_model", "instructblipvideo", "jamba",
    "jetmoe", "kimi_linear", "kyutai_speech_to_text", "led", "lfm3_vl", "llama4_text", "longcat_flash",
    "mamba", "mllama", "moshi", "mt5", "muse_glimmer", "nemo_speechlm", "nemotron_h", "nllb-moe", "opt",
    "pegasus", "phi4_multimodal", "pi0", "pix2struct", "qwen2_5_omni", "recurrent_gemma", "rembert", "rwkv",
    "seamless_m4t", "seamless_m4t_v2", "step3p7", "switch_transformers", "t5", "t5gemma", "t5gemma2",
    "udop", "umt5", "vibevoice_asr", "video_llava", "vision-encoder-decoder", "voxtral_realtime",
    "xlm-roberta", "xlstm", "xmod", "zamba", "zamba2",
})  # fmt: skip
