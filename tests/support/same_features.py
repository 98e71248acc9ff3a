"""Features that are compared array by array and setting by setting, changed, or held as tensors."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np

import graphrf as grf
from graphrf.features.record import Record
from graphrf.features.sample_info import SampleInfo

ARRAYS = tuple(part.name for part in fields(Record))


def parts(features: grf.features.Features) -> dict[str, Any]:
    """All that the features are made of, by name; of a device's, copies on the host."""
    named = {part.name: getattr(features.info, part.name) for part in fields(SampleInfo)}
    record = features.to("cpu").record
    return {"nodes": features.nodes, **named, **{name: getattr(record, name) for name in ARRAYS}}


def changed(features: grf.features.Features, **changes: Any) -> grf.features.Features:
    """The features with other settings or arrays of the record."""
    of_record = {name: changes.pop(name) for name in ARRAYS if name in changes}
    nodes = changes.pop("nodes", features.nodes)
    return grf.features.Features(
        replace(features.info, **changes), nodes, replace(features.record, **of_record)
    )


def taken_rows(features: grf.features.Features, rows: np.ndarray) -> grf.features.Features:
    """The features of some rows, given by number."""
    return grf.features.Features(features.info, features.nodes[rows], features.record.take(rows))


def with_tensors(features: grf.features.Features) -> grf.features.Features:
    """The same, held as tensors of the CPU as those of a device are."""
    import torch

    from graphrf.features.device_record import device_record

    return grf.features.Features(
        features.info, features.nodes, device_record(features.record, torch.device("cpu"))
    )
