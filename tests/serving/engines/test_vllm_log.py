# ruff: noqa: E501 - lines as printed
"""Why vLLM gave up, in excerpts of what 0.32.0 really printed on a CPU."""

from __future__ import annotations

import pytest

from ropewalk.serving.engines.vllm.log import root_error

EMPTY = [
    "    raise RuntimeError(",
    "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore': 1}",
]
PYDANTIC = "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig"
LINK = "    For further information visit https://errors.pydantic.dev/2.14/v/value_error"
TOO_LONG = (
    "User-specified max_model_len (9000) is greater than the derived max_model_len "
    "(max_position_embeddings=8192.0 or model_max_length=None in model's config.json)."
)
HEADS = "Total number of attention heads (9) must be divisible by tensor parallel size (2)."
NEEDED = (
    "ValueError: To serve at least one request with the model's max seq len (8192), (0.18 GiB KV cache is"
)
DIED = "Worker proc VllmWorker-0 died unexpectedly (exit code: None), shutting down executor."


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        # --rope-scaling, --kv-cache-dtype fp7
        (
            ["main.py: error: unrecognized arguments: --rope-scaling {}"],
            "unrecognized arguments: --rope-scaling {}",
        ),
        (
            [
                "usage: vllm serve [model_tag] [options]",
                "main.py serve: error: argument --kv-cache-dtype: invalid choice: 'fp7' (choose from 'auto')",
            ],
            "argument --kv-cache-dtype: invalid choice: 'fp7' (choose from 'auto')",
        ),
        # --max-model-len 9000
        (
            [PYDANTIC, f"  Value error, {TOO_LONG} [type=value_error, input_value=ArgsKwargs(())]", LINK],
            TOO_LONG,
        ),
        # -tp 2: after the reason the values go on in the same line
        (
            [
                PYDANTIC.replace("ModelConfig", "VllmConfig"),
                f"  Value error, {HEADS} [type=value_error, input_value=ArgsKwargs((), {{'model_co...}}), input_type=A]",
                LINK,
            ],
            HEADS,
        ),
        # --hf-overrides '{bad'
        (
            [
                PYDANTIC.replace("1 validation error", "2 validation errors"),
                "hf_overrides.dict[str,any]",
                "  Input should be a valid dictionary [type=dict_type, input_value='{bad', input_type=str]",
                LINK,
                "hf_overrides.callable",
                "  Input should be callable [type=callable_type, input_value='{bad', input_type=str]",
            ],
            "hf_overrides.dict[str,any]: Input should be a valid dictionary",
        ),
        # --kv-cache-memory-bytes 100000000 --max-model-len 8192
        (
            [
                "(APIServer pid=10) WARNING 11-30 17:32:55 [system_utils.py:255] This can cause fd limit errors like "
                "`OSError: [Errno 24] Too many open files`.",
                f"(EngineCore pid=12) ERROR 11-30 17:23:01 [core.py:1510] {NEEDED}",
                *EMPTY,
            ],
            NEEDED,
        ),
        # a folder without weights
        (
            [
                "(Worker pid=3943) ERROR 11-30 17:36:15 [multiproc_executor.py:953]     raise RuntimeError(",
                "(Worker pid=3943) ERROR 11-30 17:36:15 [multiproc_executor.py:953] RuntimeError: Cannot find any "
                "model weights with `/models/m`",
                *EMPTY,
            ],
            "RuntimeError: Cannot find any model weights with `/models/m`",
        ),
        # a worker killed by the system
        (
            [
                f"(EngineCore pid=7496) ERROR 11-30 17:45:33 [multiproc_executor.py:315] {DIED}",
                "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above).",
            ],
            DIED,
        ),
        # a folder that is not there: what was raised first is the Hub's word for a name
        (
            [
                "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name'",
                "",
                "The above exception was the direct cause of the following exception:",
                "",
                "Traceback (most recent call last):",
                '  File "vllm/transformers_utils/config.py", line 781, in maybe_override_with_speculators',
                "OSError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': '/models/nowhere'.",
            ],
            "OSError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': '/models/nowhere'.",
        ),
        (["OSError: [Errno 98] Address already in use"], "OSError: [Errno 98] Address already in use"),
        (["(EngineCore pid=1) INFO 11-30 17:00:00 [core.py:1] all is well", *EMPTY], None),
    ],
)
def test_the_cause_is_found(lines: list[str], reason: str | None) -> None:
    assert root_error(lines) == reason
