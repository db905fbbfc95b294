"""Pretends, to SGLang's megakernel contract alone, that this process has a GPU.

Real: the contract (`sglang.srt.kernel_plugins.nvidia.binding` and `sglang.kernels.plugin_kernels.
nvidia.spec`), where the engine calls it (argument resolution, the end of the model's preparation,
the attention backend of the running forward), and every line of the log.

Pretended, and nothing else:

- what `binding` asks `torch.cuda`: that a GPU is visible, its compute capability, its number of
  SMs, its free memory, and whether a stream is being captured. Only the name `torch` of that
  module is replaced, so the rest of the engine knows that it runs on a CPU.
- the capture. A CPU has no CUDA graphs: the engine's CPU runner calls the model once a batch size
  and keeps the callable. Around that call the stream is said to be captured, and after it the
  runner's own list of capture hooks is gone through, in the words of the engine's CUDA runner.
- with speculation, where the CPU has no runner at all: one that goes through the same for every
  batch size and never replays.
"""

# ruff: noqa: INP001
# mypy: disable-error-code="import-not-found,import-untyped"
from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

CPU_RUNNER = "sglang.srt.model_executor.cpu_graph_runner.CPUGraphRunner.capture_one_batch_size"
DECODE = (
    "sglang.srt.model_executor.model_runner_components.cuda_graph_setup.capture_decode_graph"
)  # fmt: skip
SIZES = (1, 2, 3, 4)
"""Batch sizes that the runner of speculation captures."""


class PretendedCuda:
    """Answers what the contract asks `torch.cuda`."""

    def __init__(self, isa: str) -> None:
        digits = isa.removeprefix("sm_")
        self.major, self.minor = int(digits[:-1]), int(digits[-1])
        self.capturing = False

    def is_available(self) -> bool:
        """A GPU is visible."""
        return True

    def current_device(self) -> int:
        """Its number."""
        return 0

    def get_device_properties(self, _device: int) -> Any:
        """Its compute capability, and as many SMs as a GB300 has."""
        return SimpleNamespace(major=self.major, minor=self.minor, multi_processor_count=152)

    def mem_get_info(self) -> tuple[int, int]:
        """Free and total memory; both never change, so that a build takes none."""
        return (288 << 30, 288 << 30)

    def is_current_stream_capturing(self) -> bool:
        """Whether a graph is being captured."""
        return self.capturing

    @contextmanager
    def capture(self) -> Iterator[None]:
        """A graph is being captured for as long as the context lasts."""
        self.capturing = True
        try:
            yield
        finally:
            self.capturing = False


class PretendedTorch:
    """The module torch with another `cuda`."""

    def __init__(self, torch: Any, cuda: PretendedCuda) -> None:
        self._torch, self.cuda = torch, cuda

    def __getattr__(self, name: str) -> Any:
        return getattr(self._torch, name)


def captured_forward(
    runner: Any, cuda: PretendedCuda, forward: Callable[..., Any], tokens: int
) -> Callable[..., Any]:
    """The forward of a graph as the CUDA runner captures it: the call, then the runner's hooks."""

    def run_once(input_ids: Any, positions: Any, forward_batch: Any) -> Any:
        with cuda.capture():
            out = forward(input_ids, positions, forward_batch)
        for hook in runner.model_runner.capture_tail_hooks:
            hook(runner, out, forward_batch, tokens)
        return out

    return run_once


class VerifyRunner:
    """Goes through the capture of every batch size of a verify step, and never replays one."""

    def __init__(self, model_runner: Any, cuda: PretendedCuda) -> None:
        self.model_runner = model_runner
        self.capture_bs = list(SIZES)
        self.width = model_runner.decode_num_tokens_per_req()
        for size in reversed(self.capture_bs):
            self._capture(size, cuda)

    def _capture(self, size: int, cuda: PretendedCuda) -> None:
        from sglang.srt.model_executor.forward_batch_info import ForwardMode
        from sglang.srt.model_executor.forward_context import ForwardContext, forward_context

        batch = SimpleNamespace(batch_size=size, forward_mode=ForwardMode.TARGET_VERIFY)
        forward = self.model_runner.model.forward
        run_once = captured_forward(self, cuda, forward, size * self.width)
        with forward_context(ForwardContext(attn_backend=self.model_runner.attn_backend)):
            run_once(None, None, batch)

    def can_run_graph(self, _forward_batch: Any) -> bool:
        """Never: what was captured computes nothing."""
        return False


def pretend(isa: str, around_capture: Callable[[Any, int, Any], Any]) -> PretendedCuda:
    """Pretend a GPU of this kind to the contract, and go through its capture hooks.

    Args:
        isa: `sm_103`, for instance.
        around_capture: given the runner, a batch size and the forward that the engine captures;
            the one that is captured instead.
    """
    from sglang.srt.kernel_plugins.nvidia import binding
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    cuda = PretendedCuda(isa)
    binding.torch = PretendedTorch(binding.torch, cuda)

    def one_size(original: Any, runner: Any, size: int, forward: Any, **options: Any) -> Any:
        wanted = around_capture(runner, size, forward)
        _, out = original(runner, size, captured_forward(runner, cuda, wanted, size), **options)
        return forward, out

    def decode(original: Any, *, model_runner: Any) -> Any:
        speculates = model_runner.spec_algorithm.is_speculative()
        if not speculates or model_runner.is_draft_worker:
            return original(model_runner=model_runner)
        return _verify_capture(model_runner, cuda)

    HookRegistry.register(CPU_RUNNER, one_size, HookType.AROUND)
    HookRegistry.register(DECODE, decode, HookType.AROUND)
    return cuda


def _verify_capture(model_runner: Any, cuda: PretendedCuda) -> Any:
    from sglang.srt.model_executor.model_runner_components.cuda_graph_setup import GraphCapture

    return GraphCapture(
        runner=VerifyRunner(model_runner, cuda), memory_phase="target_verify",
        memory_usage_gb=0.0, capture_time=0.0,
    )  # fmt: skip
