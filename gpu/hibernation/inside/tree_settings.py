"""What a tree is started with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Account:
    """Whose tree it is, where root starts it."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()

    def as_word(self) -> str:
        """For a command line: ``UID:GID:GROUP,GROUP``."""
        return f"{self.uid}:{self.gid}:{','.join(map(str, self.groups))}"

    @classmethod
    def from_word(cls, word: str) -> Account:
        """The other way round.

        Raises
        ------
        ValueError
            For anything else.
        """
        uid, gid, groups = word.split(":")
        return cls(
            uid=int(uid), gid=int(gid), groups=tuple(map(int, filter(None, groups.split(","))))
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class TreeSettings:
    """How this tree runs."""

    #: The tree's own folder; only its user may enter it.
    folder: Path
    #: Wake the image in the folder instead of running the command.
    wake: bool
    command: tuple[str, ...]
    criu: tuple[str, ...]
    #: What happens when the caller dies: saved, or ended as by SIGTERM.
    save_when_orphaned: bool = False
    #: Gets what the tree prints; None: the caller's own pipes do.
    output: Path | None = None
    preload: str | None = None
    #: Close network connections at a save; else a tree that holds one is refused.
    close_connections: bool = False
    #: NVIDIA's driver, where it was found out that it can park; None: what holds a GPU is refused.
    driver: str | None = None
    #: Root starts it as this user, without a user namespace; None: its own user does, with one.
    account: Account | None = None
    #: Descriptors beside the first three that the command gets, and nobody else here.
    handed: tuple[int, ...] = ()
    #: The command reads its standard input, a pipe of the caller's; else that is empty.
    has_order: bool = False
    #: Only with an account: folders as (where they lie, where the processes see them).
    places: tuple[tuple[str, str], ...] = ()
    #: A descriptor that tells when who asked for the tree is gone; None: its parent asked.
    alive: int | None = None
