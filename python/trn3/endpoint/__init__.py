"""An OpenAI-compatible endpoint in front of a simulated machine.

Load generators that measure real servers measure it as they do these: tokens come when the machine
would have made them, in real or in scaled time. Their text is a placeholder. Needs the extra
``serve``.

Examples
--------
>>> from trn3 import endpoint
>>> options = endpoint.EndpointOptions(port=8000, speed=endpoint.speed_of("10"))
>>> options.host, options.speed
('127.0.0.1', 10.0)
"""

from __future__ import annotations

from trn3.endpoint.live_server import LiveServerProtocol
from trn3.endpoint.options import MAX_SPEED, EndpointOptions, speed_of

try:
    from trn3.endpoint.door import Endpoint
    from trn3.endpoint.running import run
except ModuleNotFoundError as error:
    if str(error.name).startswith("trn3"):
        raise
    raise ImportError(f"trn3.endpoint needs {error.name}: pip install 'trn3[serve]'") from error

__all__ = [
    "MAX_SPEED",
    "Endpoint",
    "EndpointOptions",
    "LiveServerProtocol",
    "run",
    "speed_of",
]
