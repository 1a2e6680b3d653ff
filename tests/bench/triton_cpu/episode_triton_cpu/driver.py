"""The driver's side of the backend: one device, the CPU."""

from typing import Any

import torch  # type: ignore[import-not-found]
from triton.backends.compiler import GPUTarget  # type: ignore[import-not-found]
from triton.backends.driver import DriverBase  # type: ignore[import-not-found]


class CPUDriver(DriverBase):  # type: ignore[misc]
    """Says what Triton and vLLM ask a driver before they run a kernel."""

    def __init__(self) -> None:
        """DriverBase's own looks for a compiler."""

    @staticmethod
    def is_active() -> bool:
        """Always."""
        return True

    def get_current_target(self) -> Any:
        """What kernels would be compiled for."""
        return GPUTarget("cpu", 0, 1)

    def get_current_device(self) -> int:
        """The only one."""
        return 0

    def get_active_torch_device(self) -> Any:
        """Where tensors are."""
        return torch.device("cpu")

    def get_device_interface(self) -> Any:
        """The part of torch for the device."""
        return torch.cpu

    def map_python_to_cpp_type(self, type_name: str) -> str:
        """Never asked for."""
        raise NotImplementedError

    def get_benchmarker(self) -> Any:
        """Never asked for."""
        raise NotImplementedError
