"""What is published of each engine: images, packages, and what its server answers to."""

from __future__ import annotations

from dataclasses import dataclass

from ropewalk.engines import EngineName
from ropewalk.serving.engines.llama_cpp import launch as llama_server
from ropewalk.serving.engines.vllm import launch as vllm


@dataclass(frozen=True, slots=True)
class Published:
    """``release`` is how a released version is written, ``example`` one. ``program`` is the server in the
    image; ``gpu_image`` and ``cpu_image`` end where the version follows. ``package`` is what pip installs for
    GPUs, None where there is none. ``key`` is the variable that makes callers give a key.
    """

    engine: EngineName
    release: str
    example: str
    program: str
    gpu_image: str
    cpu_image: str
    package: str | None
    key: str
    reads_hub: bool
    ready_seconds: int

    def image(self, version: str, *, gpu: bool) -> str:
        """The image of this version."""
        return f"{self.gpu_image if gpu else self.cpu_image}{version}"


PUBLISHED = {
    # vLLM's release notes; on the processor since 0.16 (vllm-project/vllm#32032, #34882).
    "vllm": Published(
        engine="vllm",
        release="{}.{}.{}",
        example="0.33.0",
        program="vllm",
        gpu_image="vllm/vllm-openai:v",
        cpu_image="vllm/vllm-openai-cpu:v",
        package="vllm",
        key="VLLM_API_KEY",
        reads_hub=True,
        ready_seconds=int(vllm.READY_SECONDS),
    ),
    # llama.cpp docs/docker.md, .devops/cuda.Dockerfile: CUDA 12.8.
    "llama-server": Published(
        engine="llama-server",
        release="b{}",
        example="b11434",
        program="/app/llama-server",
        gpu_image="ghcr.io/ggml-org/llama.cpp:server-cuda-",
        cpu_image="ghcr.io/ggml-org/llama.cpp:server-",
        package=None,
        key="LLAMA_API_KEY",
        reads_hub=False,
        ready_seconds=int(llama_server.READY_SECONDS),
    ),
}
