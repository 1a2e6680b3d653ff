"""The compiler's side of the backend. The interpreter never asks it to compile."""

from typing import Any

from triton.backends.compiler import BaseBackend  # type: ignore[import-not-found]


class CPUBackend(BaseBackend):  # type: ignore[misc]
    """Compiles nothing."""

    @staticmethod
    def supports_target(target: Any) -> bool:
        """Whether it is ours."""
        return bool(target.backend == "cpu")

    def hash(self) -> str:
        """Its name: there is no version of a compiler."""
        return "cpu"

    def parse_options(self, options: dict[str, Any]) -> Any:
        """Never asked for."""
        raise NotImplementedError

    def add_stages(self, stages: dict[str, Any], options: Any, *_: Any) -> None:
        """Never asked for."""
        raise NotImplementedError

    def load_dialects(self, context: Any) -> None:
        """Never asked for."""
        raise NotImplementedError

    def get_module_map(self) -> dict[str, Any]:
        """No module of Triton's library is replaced."""
        return {}
