"""What a woken kernel must learn: its environment is the old server's, its debugger lost its line.

It is sent on the control channel, which answers while a cell runs, and leaves no name behind. What a
library has read before (a token, the devices that CUDA saw) cannot be reached by this.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jupyter_client.session import Session

#: Of the server and its hub; all other variables stay as the kernel has them.
_PREFIXES = ("JUPYTERHUB_", "GPUCOMMONS_", "NVIDIA_", "CUDA_")
_NAMES = frozenset({"JPY_API_TOKEN", "HOSTNAME"})

_CODE = """
def _gpucommons_renew(new, prefixes, names):
    import os
    for name in [n for n in os.environ if n.startswith(prefixes) or n in names]:
        if name not in new:
            del os.environ[name]
    os.environ.update(new)
    kernel = get_ipython().kernel
    debugger = getattr(kernel, 'debugger', None)
    if debugger is None or not getattr(kernel, 'debugpy_initialized', debugger.debugpy_initialized):
        return
    nothing = {
        'isStarted': False, 'hashMethod': 'Murmur2', 'hashSeed': 0, 'tmpFilePrefix': '',
        'tmpFileSuffix': '.py', 'breakpoints': [], 'stoppedThreads': [], 'richRendering': False,
        'exceptionPaths': [], 'copyToGlobals': False,
    }
    async def answer(message):
        asks = message['command'] == 'debugInfo'
        return {
            'type': 'response', 'request_seq': message['seq'], 'command': message['command'],
            'success': asks, 'body': nothing if asks else {},
            'message': 'Restart the kernel to debug: its debugger ended when it was saved.',
        }
    kernel.do_debug_request = answer
_gpucommons_renew(%r, %r, %r)
del _gpucommons_renew
"""


def code(environ: Mapping[str, str]) -> str:
    """What the kernel runs: the variables of the new server instead of the old one's."""
    new = {
        name: value
        for name, value in environ.items()
        if name.startswith(_PREFIXES) or name in _NAMES
    }
    return _CODE % (new, _PREFIXES, _NAMES)


def renew(kernel: Any, environ: Mapping[str, str]) -> None:
    """Send it; nobody waits for the answer."""
    if (kernel.kernel_spec.language or "").lower() != "python":
        return
    channel = kernel.connect_control()
    session = Session(config=kernel.session.config, key=kernel.session.key)
    channel.on_recv(lambda _answer: channel.close())
    content = {
        "code": code(environ),
        "silent": True,
        "store_history": False,
        "user_expressions": {},
        "allow_stdin": False,
        "stop_on_error": False,
    }
    session.send(channel, "execute_request", content)
