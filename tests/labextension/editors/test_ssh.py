from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpucommons.labextension.editors import ssh


def test_a_session_has_the_variables_of_the_server_and_its_own_connection() -> None:
    of_server = {"CUDA_VISIBLE_DEVICES": "GPU-1", "PATH": "/opt/bin", "HOME": "/home/ann"}
    of_session = {
        "PATH": "/usr/bin", "HOME": "/", "SSH_CONNECTION": "1 2 3 4", "TERM": "xterm", "LANG": "C",
    }  # fmt: skip
    assert ssh.variables(of_server, of_session) == {
        **of_server,
        "SSH_CONNECTION": "1 2 3 4",
        "TERM": "xterm",
    }


def test_what_was_asked_for_runs_in_the_users_shell() -> None:
    assert ssh.command("echo $HOME", {"SHELL": "/bin/zsh"}) == ["/bin/zsh", "-c", "echo $HOME"]
    shell = ssh.command("", {"SHELL": "/bin/bash"})
    assert "/bin/bash" in shell
    assert "--rcfile" in shell  # as Lab's terminals, so that `gpucommons` is found
    assert ssh.command("", {"SHELL": "/opt/xonsh"}) == ["/opt/xonsh"]


def test_files_without_a_program_for_them_are_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh, "_SFTP_PLACES", "")
    with pytest.raises(SystemExit, match="scp -O copies without it"):
        ssh.command("internal-sftp", {"SHELL": "/bin/sh"})


def test_no_variable_stands_on_the_command_line_and_passwords_are_refused() -> None:
    listens, keys = "ListenAddress 127.0.0.1:{port}", "AuthorizedKeysFile .ssh/one .ssh/two"
    entry = {"command": [None, "-D", "-o", listens, "-o", keys], "timeout": 60}
    done = ssh.completed(entry, "/usr/sbin/sshd")
    command = done["command"]
    assert command[:2] == ["/usr/sbin/sshd", "-D"]
    begin = f"{sys.executable} -I -m {ssh.__name__} {os.getpid()} .ssh/one .ssh/two"
    assert f"ForceCommand {begin}" in command
    assert "ExposeAuthInfo yes" in command
    assert {"PasswordAuthentication no", "KbdInteractiveAuthentication no"} <= set(command)
    assert done["timeout"] == 60


SHOWN = "publickey ssh-ed25519 AAAAkey\n"


@pytest.mark.parametrize(
    ("line", "may"),
    [
        ("ssh-ed25519 AAAAkey ann@desk", True),
        ('no-pty,from="10.0.0.0/8" ssh-ed25519 AAAAkey', True),
        # For a backup alone: sshd would run our command instead.
        ('command="rrsync /data",no-pty ssh-ed25519 AAAAkey', False),
        ('no-pty,Command="true" ssh-ed25519 AAAAkey', False),
        ("#ssh-ed25519 AAAAkey", False),
        ("ssh-ed25519 AAAAother", False),
    ],
)
def test_a_key_for_one_command_opens_no_shell(line: str, *, may: bool) -> None:
    assert ssh.does_anything(SHOWN, ["", line]) is may
    assert not ssh.does_anything("", [line])


def test_a_session_gets_them_from_the_server_above_it_and_from_no_other_process(
    tmp_path: Path,
) -> None:
    # A shell in the place of the notebook server, with sshd's forgetful child below it.
    shown, keys = tmp_path / "shown", tmp_path / "keys"
    shown.write_text(SHOWN)
    keys.write_text("ssh-ed25519 AAAAkey ann@desk\n")
    begin = f'env -i SSH_USER_AUTH={shown} SSH_ORIGINAL_COMMAND="echo \\$SLICE"'
    begin += f' "{sys.executable}" -I -m {ssh.__name__}'

    def run(pid: str) -> subprocess.CompletedProcess[str]:
        environ = {**os.environ, "SLICE": "GPU-7", "SHELL": "/bin/sh"}
        words = ["/bin/sh", "-c", f"{begin} {pid} {keys}; exit $?"]
        return subprocess.run(words, env=environ, capture_output=True, text=True, check=False)

    assert run("$$").stdout == "GPU-7\n"
    keys.write_text('command="true" ssh-ed25519 AAAAkey\n')
    refused = run("$$")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "without a command of its own" in refused.stderr
    with subprocess.Popen(["sleep", "600"], env={"SLICE": "GPU-8"}) as other:
        gone = run(str(other.pid))
        other.kill()
    assert (gone.returncode, gone.stdout) == (1, "")
    assert "has ended: connect to the new one" in gone.stderr
