"""linear_operator, imported before anything that imports it, without a warning of torch's.

It calls `torch.jit.script` when it is first imported, which torch deprecates: as a
`DeprecationWarning` up to 2.13, as a `FutureWarning`, which users see, from 2.14 on.
"""

import warnings

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message="`torch.jit.script` is deprecated")
    import linear_operator  # noqa: F401
