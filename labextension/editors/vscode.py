"""The slice in VS Code's status bar: an extension of ours, installed when the editor starts.

What jupyter-vscode-proxy starts is completed: this module runs as a program before it, gives VS Code the
extension that lies beside, and becomes the editor. No marketplace is asked. What is done in the editor is
not read from it (see ``traffic``): whoever removes it loses the display and nothing else.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import escape, quoteattr

from traitlets.config.loader import LazyConfigValue

EXTENSION = Path(__file__).with_name("vscode_status")
#: Where the extension finds this server; with a token, as the hub's variables have one.
SOCKET = "GPUCOMMONS_EDITOR_SOCKET"
_FROM_A_COMMAND_LINE = "VSCODE_CLI"
_ANYWHERE = ("", "0.0.0.0", "::", "*")  # noqa: S104 - what a server may listen at, to be replaced
#: Starting VS Code's program to install takes two or three.
_PATIENCE_S = 60
_TYPES = """<?xml version="1.0" encoding="utf-8"?>
<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">\
<Default Extension=".json" ContentType="application/json"/>\
<Default Extension=".js" ContentType="application/javascript"/>\
<Default Extension=".vsixmanifest" ContentType="text/xml"/></Types>
"""


def offer(server: Any) -> None:
    """Before jupyter-server-proxy, which comes later by its name, asks what is to be served."""
    if find_spec("jupyter_vscode_proxy") is None:
        return
    from jupyter_vscode_proxy import setup_vscode  # noqa: PLC0415 - optional

    try:
        entry = completed(setup_vscode(), lambda: socket_url(server, os.environ))
    except KeyError as error:
        # Of CODE_EXECUTABLE; the proxy says it, too.
        server.log.warning("VS Code is not offered: %s", error)
        return
    asked = server.config.ServerProxy
    others = asked.get("servers", {})
    if isinstance(others, LazyConfigValue):
        # As ``c.ServerProxy.servers.update(...)`` leaves it.
        others = others.get_value({})
    # The proxy lists it once more by its entry point: of two equal tiles in Lab's launcher that one is left,
    # and opens ours, which is asked first. What an admin configured under this name stays.
    hidden = {**entry.get("launcher_entry", {}), "enabled": False}
    asked.servers = {"vscode": {**entry, "launcher_entry": hidden}, **others}


def completed(entry: Mapping[str, Any], url: Callable[[], str]) -> dict[str, Any]:
    """With our program before it, and the address of this server at the time of its start."""
    theirs = entry["command"]

    def command(port: int, unix_socket: str) -> list[str]:
        begin = [sys.executable, "-I", "-m", __spec__.name]
        return [*begin, *_with_its_word_for_a_socket(theirs(port, unix_socket))]

    def environment() -> dict[str, str]:
        return {**entry.get("environment", {}), SOCKET: url()}

    return {**entry, "command": command, "environment": environment}


def _with_its_word_for_a_socket(command: Sequence[str]) -> list[str]:
    """jupyter-vscode-proxy (0.7) tells openvscode-server in the words of code-server.

    Options that it does not know it passes over: it would listen at a port that all users of the machine
    reach, and asks none of them for a password. The folder of the socket is its user's alone.
    """
    words = list(command)
    if words[0] == "openvscode-server" and "--socket" in words:
        at = words.index("--socket")
        words[at : at + 4] = ["--socket-path", words[at + 1]]
    return words


def socket_url(server: Any, environ: Mapping[str, str]) -> str:
    """What Lab's panel is told by, on this machine; "" where the server has no port or no token."""
    token = environ.get("JUPYTERHUB_API_TOKEN") or server.identity_provider.token
    if not token or server.sock or server.certfile:
        return ""
    host = "127.0.0.1" if server.ip in _ANYWHERE else server.ip
    where = f"[{host}]" if ":" in host else host
    return f"ws://{where}:{server.port}{server.base_url}gpucommons/ws?token={quote(token, safe='')}"


def vsix(folder: Path, target: Path) -> None:
    """Pack an extension as VS Code installs it: the same bytes each time."""
    about = json.loads((folder / "package.json").read_text(encoding="utf-8"))
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr(_entry("[Content_Types].xml"), _TYPES)
        packed.writestr(_entry("extension.vsixmanifest"), _manifest(about))
        for path in sorted(folder.iterdir()):
            if path.suffix in (".js", ".json"):
                packed.writestr(_entry(f"extension/{path.name}"), path.read_bytes())


def _entry(name: str) -> zipfile.ZipInfo:
    return zipfile.ZipInfo(name, date_time=(2026, 1, 1, 0, 0, 0))


def _manifest(about: Mapping[str, Any]) -> str:
    identity = " ".join(
        f"{name}={quoteattr(about[field])}"
        for name, field in (("Id", "name"), ("Version", "version"), ("Publisher", "publisher"))
    )
    engine = quoteattr(about["engines"]["vscode"])
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        '<PackageManifest Version="2.0.0"'
        ' xmlns="http://schemas.microsoft.com/developer/vsx-schema/2011">'
        f'<Metadata><Identity Language="en-US" {identity}/>'
        f"<DisplayName>{escape(about['displayName'])}</DisplayName>"
        f"<Description>{escape(about['description'])}</Description>"
        f'<Properties><Property Id="Microsoft.VisualStudio.Code.Engine" Value={engine}/></Properties>'
        "</Metadata>"
        '<Installation><InstallationTarget Id="Microsoft.VisualStudio.Code"/></Installation>'
        "<Dependencies/>"
        '<Assets><Asset Type="Microsoft.VisualStudio.Code.Manifest" Path="extension/package.json"'
        ' Addressable="true"/></Assets></PackageManifest>\n'
    )


def is_there(installed: str) -> bool:
    """Whether this version is among what ``--list-extensions --show-versions`` says."""
    about = json.loads((EXTENSION / "package.json").read_text(encoding="utf-8"))
    return f"{about['publisher']}.{about['name']}@{about['version']}" in installed.split()


def install(command: Sequence[str]) -> None:
    """Give the editor the extension, where it is not there yet; without it, it starts as well."""
    program = [command[0], *_extensions_folder(command)]
    with suppress(OSError, subprocess.SubprocessError), TemporaryDirectory() as folder:
        listed = _said([*program, "--list-extensions", "--show-versions"])
        if not is_there(listed):
            package = Path(folder, "gpucommons-slice.vsix")
            vsix(EXTENSION, package)
            _said([*program, "--install-extension", str(package)])


def _extensions_folder(command: Sequence[str]) -> list[str]:
    name = "--extensions-dir"
    if name not in command:
        return []
    at = command.index(name)
    return list(command[at : at + 2])


def _said(command: Sequence[str]) -> str:
    return subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=_PATIENCE_S
    ).stdout


def with_programs(environ: Mapping[str, str], programs: Path) -> dict[str, str]:
    """The notebook server's variables, and its environment's programs on the path.

    VS Code takes the variables of a login shell, in which ``/etc/profile`` sets PATH anew: neither Python
    nor ``gpucommons`` would be found in its terminals. Who starts it from a command line keeps their own.
    """
    places = environ.get("PATH", os.defpath).split(os.pathsep)
    before = [] if str(programs) in places else [str(programs)]
    return {**environ, "PATH": os.pathsep.join([*before, *places]), _FROM_A_COMMAND_LINE: "1"}


def main() -> None:
    """Install it, and become the editor."""
    command = sys.argv[1:]
    if os.environ.get(SOCKET):
        install(command)
    environ = with_programs(os.environ, Path(sys.executable).parent)
    os.execvpe(command[0], command, environ)  # noqa: S606 - what jupyter-vscode-proxy starts


if __name__ == "__main__":
    main()
