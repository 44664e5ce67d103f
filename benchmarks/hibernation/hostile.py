"""Tries of a hostile user to get by a wake what they may not have. Each must end without it.

Played as an ordinary user where we are root, against a file that only root may read. Each try
answers what it got; nothing is what must come out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.hibernation import forbidding
from benchmarks.hibernation import forged_images as forged
from gpucommons.gpu.hibernation import folder as layout
from gpucommons.gpu.hibernation import refusals
from gpucommons.gpu.hibernation import tree as tree_module
from gpucommons.gpu.hibernation.criu import Criu, criu_at
from gpucommons.gpu.hibernation.inside.tree_settings import Account
from gpucommons.gpu.hibernation.tree import HibernatableTree, Refused

SECONDS = 60
CONTENT = "top secret"
#: An ordinary user of this process alone: a try looks at, and traces, all that its user runs. None of
#: this number needs to exist; below 60,000 systems and tests give out no other.
USER = 20_000 + os.getpid() % 40_000
#: Waits at a pipe beside a child that has ended, then tells what it can read and who it is.
_PROGRAM = """
import os, sys
held, child = open(sys.argv[1]), os.fork() or os._exit(3)
os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
print("ready", flush=True)
os.close(os.open(sys.argv[2], os.O_RDONLY))
assert os.waitpid(child, 0)[1] == 3 << 8 and not held.seek(0)
print(repr(held.read()), os.getresuid(), flush=True)
print([x.split()[1] for x in open("/proc/self/status") if x.startswith(("CapEff", "CapPrm", "CapInh", "CapAmb", "NoNewPrivs"))], flush=True)
"""
AS_USER = ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--")
_NOTHING = ["0000000000000000"] * 4 + ["1"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Ground:
    """Where a try is played."""

    folder: Path
    criu: Criu
    #: A file that the user may not read.
    secret: Path
    #: What becomes the user before a command runs; empty where we are one already.
    as_user: tuple[str, ...] = ()
    #: Root starts the tree for this user, in a user namespace of root's; else they do.
    account: Account | None = None
    #: Not even root may make one.
    forbidden: bool = False
    #: What starts a tree, where that user may read it.
    init: Path = tree_module.INIT


def honest_wakes(ground: Ground, woken_on: Ground | None = None) -> bool:
    """Nobody tries anything: it must wake (on another ground, if one is named), with its own file and no right."""
    saved(ground, ground.folder / "held")
    uid = owner(ground)[0]
    own = f"{'x' * len(CONTENT)!r} ({uid}, {uid}, {uid})"
    return _said_when_woken(woken_on or ground) == (own, str(_NOTHING))


def open_file_becomes_a_link(ground: Ground) -> str | None:
    """The file that was open is swapped for a link to another's file of the same size."""
    own = ground.folder / "held"
    saved(ground, own)
    own.unlink()
    own.symlink_to(ground.secret)
    return _woken(ground)


def and_the_description_is_forged(ground: Ground) -> str | None:
    """The same, and the description no longer knows of the file."""
    own = ground.folder / "held"
    saved(ground, own)
    own.unlink()
    own.symlink_to(ground.secret)
    forged.forge(_image(ground), {})
    return _woken(ground)


def image_asks_for_root(ground: Ground) -> str | None:
    """In the image the user's number becomes 0 wherever it stands for who the process is."""
    saved(ground, ground.folder / "held")
    uid = owner(ground)[0]
    changed = {one.name: forged.with_number(one.read_bytes(), uid, 0) for one in _cores(ground)}
    forged.forge(_image(ground), changed)
    return _woken(ground)


def image_asks_for_capabilities(ground: Ground) -> str | None:
    """In the image no_new_privs is cleared, and every capability is wanted."""
    saved(ground, ground.folder / "held")
    changed = {}
    for path in _cores(ground):
        data = path.read_bytes()
        # cap_inh, cap_prm, cap_eff, cap_bnd: fields 9 to 12, two words each, all zero.
        for field in (9, 10, 11, 12):
            tag = bytes([field << 3])
            data = data.replace(tag + b"\0" + tag + b"\0", tag + b"\x7f" + tag + b"\x7f")
        changed[path.name] = data
    forged.forge(_image(ground), changed)
    return _woken(ground)


def image_asks_for_the_capability_of_criu(ground: Ground) -> str | None:
    """In the image the one capability that CRIU may have on the whole machine is kept."""
    saved(ground, ground.folder / "held")
    forged.forge(_image(ground), _cores_with_capability(ground))
    return _woken(ground)


def image_asks_for_it_behind_a_link(ground: Ground) -> str | None:
    """The same, in a file outside of the image to which its name leads."""
    saved(ground, ground.folder / "held")
    for path in _cores(ground):
        elsewhere = ground.folder / path.name
        elsewhere.write_bytes(forged.with_capability(path.read_bytes()))
        path.unlink()
        path.symlink_to(elsewhere)
    forged.forge(_image(ground), {})
    return _woken(ground)


def image_asks_for_it_in_the_first_format(ground: Ground) -> str | None:
    """The same where only CRIU reads it: it begins sooner in files of its first format."""
    saved(ground, ground.folder / "held")
    image, changed = _image(ground), _cores_with_capability(ground)
    forged.forge(image, forged.in_the_first_format(image, changed))
    return _woken(ground)


def archive_writes_over_what_was_looked_at(ground: Ground) -> str | None:
    """The archive of shared memory leads to the copies that CRIU reads, by PID 1's own descriptors."""
    for number in range(3, 12):  # it has no more of them
        _new_ground(ground)
        saved(ground, ground.folder / "held")
        forged.archive_over(_image(ground), f"proc/self/fd/{number}")
        forged.forge(_image(ground), {})
        with started(ground, new_tree(ground).wake_command()) as process:
            refused = new_tree(ground).awake(SECONDS)
            process.kill()
        # What is found only in what runs already was not found in time.
        if refused is None or refused.because == refusals.WANTS_RIGHTS:
            return f"woken by way of descriptor {number}"
    return None


def tree_of_somebody_else(ground: Ground) -> str | None:
    """The tree's folder is a link to a folder that its user may not enter."""
    private = ground.secret.with_name("private")
    private.mkdir(mode=0o700, exist_ok=True)
    before = sorted(private.iterdir())
    (ground.folder / "tree").symlink_to(private)
    said = _run(ground, new_tree(ground).run_command([python_for_all(), "-c", "print('runs')"]))
    made = sorted(private.iterdir()) != before
    return said if os.geteuid() == 0 and (made or "runs" in said) else None


def image_is_a_link(ground: Ground) -> str | None:
    """The folder of the image is a link to another place."""
    saved(ground, ground.folder / "held")
    _image(ground).symlink_to(_image(ground).rename(ground.folder / "elsewhere"))
    return _woken(ground)


def image_is_woken_twice(ground: Ground) -> str | None:
    """A copy of the image's name is put back while it runs."""
    saved(ground, ground.folder / "held")
    tree = new_tree(ground)
    with started(ground, tree.wake_command()) as first:
        refused = tree.awake(SECONDS)
        again = _run(ground, tree.wake_command())
        first.kill()
    return None if refused or "Another tree" in again or "no image" in again else again


def memory_of_others(ground: Ground) -> str | None:
    """A program in a tree looks for processes outside of it, and for PID 1's memory."""
    code = (
        "import os\nprint(sorted(x for x in os.listdir('/proc') if x.isdigit()))\n"
        "try:\n    open('/proc/1/mem', 'rb'); print('got in')\nexcept OSError: print('refused')"
    )
    tree = new_tree(ground)
    said = _run(ground, tree.run_command([python_for_all(), "-c", code])).splitlines()
    return None if said == ["['1', '2']", "refused"] else str(said)


def rights_of_a_program_with_setuid(ground: Ground) -> str | None:
    """A program in a tree starts one that would make it root."""
    code = (
        "import os, subprocess\n"
        "done = subprocess.run(['su', '-c', 'id -u'], stdin=subprocess.DEVNULL, capture_output=True)\n"
        "print(done.returncode != 0, os.getuid())"
    )
    tree = new_tree(ground)
    said = _run(ground, tree.run_command([python_for_all(), "-c", code])).split()
    uid = ground.folder.stat().st_uid
    # Root itself stays who it is, without rights.
    return None if said == ["True", str(uid)] or not uid else str(said)


TRIES: tuple[Callable[[Ground], str | None], ...] = (
    open_file_becomes_a_link,
    and_the_description_is_forged,
    image_asks_for_root,
    image_asks_for_capabilities,
    tree_of_somebody_else,
    image_is_a_link,
    image_is_woken_twice,
    memory_of_others,
    rights_of_a_program_with_setuid,
)
#: Where root starts the trees. In a user namespace of their own the right counts there alone, and its
#: user could have it without any image.
TRIES_BY_ROOT = (
    archive_writes_over_what_was_looked_at,
    image_asks_for_the_capability_of_criu,
    image_asks_for_it_behind_a_link,
    image_asks_for_it_in_the_first_format,
)


@contextmanager
def ground(
    folder: Path, criu: Criu, *, by_root: bool = False, forbidden: bool = False
) -> Iterator[Ground]:
    """Make the ground for one try; as root for an ordinary user, with copies of what they need.

    ``by_root``: root starts the trees, as where users may make no namespaces. ``forbidden``: there it
    may make none either.
    """
    if os.geteuid():
        secret = Path("/etc/shadow")
        place = folder / "own"
        place.mkdir(mode=0o700)
        yield Ground(folder=place, criu=criu, secret=secret)
        return
    secret = folder / "secret"
    secret.write_text(CONTENT)
    secret.chmod(0o600)
    folder.chmod(0o755)
    place = folder / "own"
    place.mkdir(mode=0o700)
    os.chown(place, USER, USER)
    package = folder / "code" / "gpucommons" / "gpu"
    source = tree_module.INIT.parent.parent
    for name in ("hibernation", "linux", "parking"):
        without = shutil.ignore_patterns("__pycache__")
        shutil.copytree(source / name, package / name, ignore=without)
    shutil.copy(source / "__init__.py", package)
    yield Ground(
        folder=place,
        criu=criu_for_all(criu, folder / "criu"),
        secret=secret,
        as_user=() if by_root else AS_USER,
        account=Account(uid=USER, gid=USER) if by_root else None,
        forbidden=forbidden,
        init=package / "hibernation" / tree_module.INIT.name,
    )


def criu_for_all(criu: Criu, copy: Path) -> Criu:
    """A CRIU that every user may run: an unpacked one may lie in a closed folder."""
    roots = [Path(word).parents[2] for word in criu.command if word.endswith("/usr/sbin/criu")]
    if len(criu.command) == 1 or not roots:
        return criu
    shutil.copytree(roots[0], copy, symlinks=True)
    return criu_at(copy) or criu


def new_tree(ground: Ground) -> HibernatableTree:
    """The tree of this ground; nothing lives in it yet."""
    folder = ground.folder / "tree"
    return HibernatableTree(folder, ground.criu, preload=None, account=ground.account)


def _new_ground(ground: Ground) -> None:
    """As before the try."""
    for path in ground.folder.iterdir():
        is_folder = path.is_dir() and not path.is_symlink()
        shutil.rmtree(path) if is_folder else path.unlink()


def saved(ground: Ground, own: Path) -> None:
    """Have a program run that holds this file open, and save it."""
    own.write_text("x" * len(CONTENT))
    os.mkfifo(ground.folder / "go")
    for path in (own, ground.folder / "go"):
        os.chown(path, *owner(ground))
    tree = new_tree(ground)
    command = [python_for_all(), "-u", "-c", _PROGRAM, str(own), str(ground.folder / "go")]
    with started(ground, tree.run_command(command)) as process:
        assert process.stdout is not None
        ready = process.stdout.readline()
        assert ready == "ready\n", ready
        answer = tree.save(SECONDS)
        assert not isinstance(answer, Refused), answer


def _woken(ground: Ground) -> str | None:
    """What the woken program got that it may not have; None when it got nothing."""
    said = _said_when_woken(ground)
    if said is None:
        return None
    read, rights = said
    uid = owner(ground)[0]
    if CONTENT in read or f"({uid}, {uid}, {uid})" not in read:
        return read
    return None if rights == str(_NOTHING) else rights


def _said_when_woken(ground: Ground) -> tuple[str, str] | None:
    """What the program reads and which rights it has; None when it was not woken."""
    tree = new_tree(ground)
    with started(ground, tree.wake_command()) as process:
        if tree.awake(SECONDS) is not None:
            return None
        # Held for both ends: whether it opens the pipe now or a moment later, it goes on.
        held = os.open(ground.folder / "go", os.O_RDWR)
        assert process.stdout is not None
        read, rights = process.stdout.readline(), process.stdout.readline()
        os.close(held)
    return read.strip(), rights.strip()


def _image(ground: Ground) -> Path:
    return ground.folder / "tree" / layout.COMPLETE


def _cores(ground: Ground) -> list[Path]:
    return list(_image(ground).glob("core-*.img"))


def _cores_with_capability(ground: Ground) -> dict[str, bytes]:
    return {one.name: forged.with_capability(one.read_bytes()) for one in _cores(ground)}


def owner(ground: Ground) -> tuple[int, int]:
    """The user whose ground it is, and the group."""
    found = ground.folder.stat()
    return found.st_uid, found.st_gid


def python_for_all() -> str:
    """An interpreter that every user may run."""
    for_all = "/usr/bin/python3"
    return for_all if os.geteuid() == 0 and Path(for_all).exists() else sys.executable


def _command(ground: Ground, command: list[str]) -> list[str]:
    if not ground.as_user and ground.account is None:
        return command
    # A tree's command begins with our interpreter and leads to our files: the user's own copies.
    own = {sys.executable: python_for_all(), str(tree_module.INIT): str(ground.init)}
    return [*ground.as_user, *(own.get(word, word) for word in command)]


def started(ground: Ground, command: list[str]) -> subprocess.Popen[str]:
    """Start a tree as this ground starts one, or wake it."""
    reader, writer = os.pipe()
    # Who wakes opens it again, so it must be theirs.
    os.fchown(writer, *owner(ground))
    process = subprocess.Popen(
        _command(ground, command),
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=writer,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=forbidding.forbid if ground.forbidden else None,  # noqa: PLW1509 - one thread
    )
    os.close(writer)
    process.stdout = os.fdopen(reader)
    return process


def _run(ground: Ground, command: list[str]) -> str:
    with started(ground, command) as process:
        return process.communicate(timeout=SECONDS)[0]
