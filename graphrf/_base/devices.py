"""Engines and devices: checks of arguments, and torch imported only where it is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrf._base import checks, lazy

if TYPE_CHECKING:
    import torch

ENGINES = ("numba", "torch")


def engine_device(
    engine: str | None, device: str | torch.device, purpose: str
) -> torch.device | None:
    """The device for torch; None if numba is used, on the CPU. Torch is not imported to find out.

    Without an engine it is numba on the CPU, and torch elsewhere. `purpose` begins the message
    where torch is missing.
    """
    if engine is not None:
        checks.choice("engine", engine, ENGINES)
    if engine != "torch" and isinstance(device, str) and device == "cpu":
        return None
    place = torch_device(device, purpose)
    if engine != "torch" and place.type == "cpu":
        return None
    if engine == "numba":
        raise checks.value_error(
            "engine",
            f"must be 'torch', or None, for device={str(place)!r}, got 'numba', which runs on the "
            "CPU",
        )
    return place


def torch_device(device: str | torch.device, purpose: str) -> torch.device:
    """A torch device that is there and has float64, with its number; else an error."""
    torch = lazy.need("torch", purpose)
    try:
        if not isinstance(device, (str, torch.device)):
            raise TypeError("torch would take None for the CPU, and numbers for GPUs")
        probe = torch.zeros(1, dtype=torch.float64, device=device)
        probe.cpu()  # "meta" holds no numbers
        return probe.device
    # the last two from a torch without that device
    except (RuntimeError, TypeError, AssertionError, ImportError) as error:
        raise checks.value_error(
            "device",
            "must be a torch device at hand that supports float64, such as "
            f"{_at_hand(torch, device)}, got {device!r}",
        ) from error


def _at_hand(torch: Any, device: Any) -> str:
    """Advice on other devices; for a CUDA device with the number that torch sees."""
    n_cuda = torch.cuda.device_count() if torch.cuda.is_available() else 0
    names = "'cpu' or 'cuda'" if n_cuda else "'cpu'"
    if not str(device).startswith("cuda"):
        return names
    return (
        f"{names} (this torch, {torch.__version__}, sees {n_cuda or 'no'} CUDA "
        f"device{'s' * (n_cuda != 1)})"
    )
