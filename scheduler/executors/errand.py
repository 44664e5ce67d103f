"""Small errands in a user's files, run as that user: make, hand over, count, give back, clear away.

The service never opens a path below a folder that a user can write. It starts this module as the
user instead, so that a link or FIFO laid in its way can reach nothing the user could not.
"""

from __future__ import annotations

import argparse
import json
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

from gpucommons.scheduler.files.confined_files import Refused, empty, remove, unpack
from gpucommons.scheduler.working_folder import own_image
from gpucommons.scheduler.working_folder.changes import Baseline, baseline, changes
from gpucommons.scheduler.working_folder.giving_back import Wanted, give_back
from gpucommons.scheduler.working_folder.home_links import link_left_out
from gpucommons.scheduler.working_folder.own_image import OwnImage
from gpucommons.scheduler.working_folder.sending import send
from gpucommons.scheduler.working_folder.taking_over import NAME, make_new, take_over


def clear(folders: list[Path]) -> None:
    """Delete what earlier attempts left: their working copies and checkpoints."""
    for folder in folders:
        for name in (NAME, "checkpoints"):
            remove(folder / name)


def _since(arguments: argparse.Namespace) -> Baseline:
    """The snapshot, which the service alone may read, comes on standard input."""
    return baseline(sys.stdin.buffer) if arguments.snapshot else {}


def _make(arguments: argparse.Namespace) -> None:
    def fill(folder: Path) -> None:
        if arguments.snapshot:
            unpack(sys.stdin.buffer, folder, max_bytes=arguments.max_bytes)
        if arguments.links:
            link_left_out(folder, arguments.home, arguments.below, arguments.links)

    make_new(arguments.run, fill)


def _take_over(arguments: argparse.Namespace) -> None:
    _say({"taken": take_over(arguments.run, arguments.earlier)})


def _count(arguments: argparse.Namespace) -> None:
    found = changes(arguments.run / NAME, _since(arguments), max_s=arguments.seconds)
    # Where nothing was begun yet, it still lies with an earlier attempt.
    images = (OwnImage(run=run).facts() for run in (arguments.run, *arguments.earlier))
    counted = {"files": len(found.files), "size_bytes": found.size_bytes, "more": found.more}
    _say({**counted, "image": next(filter(None, images), {})})


def _give_back(arguments: argparse.Namespace) -> None:
    wanted = Wanted(
        job=arguments.job,
        job_id=arguments.job_id,
        home=arguments.home,
        below=arguments.below,
        max_bytes=arguments.max_bytes,
    )
    _say(give_back(arguments.run, _since(arguments), wanted).as_json())


def _send(arguments: argparse.Namespace) -> None:
    since, to = _since(arguments), sys.stdout.buffer
    send(arguments.run, since, to, max_bytes=arguments.max_bytes, only=arguments.only)


def _clear(arguments: argparse.Namespace) -> None:
    clear(arguments.folders)


def _erase(arguments: argparse.Namespace) -> None:
    empty(arguments.folder)


def _ready_tree(arguments: argparse.Namespace) -> None:
    _say(_image_of(arguments).ready(arguments.earlier, arguments.number, arguments.promised))


def _anew_tree(arguments: argparse.Namespace) -> None:
    _say(_image_of(arguments).anew(arguments.number))


def _tree_outcome(arguments: argparse.Namespace) -> None:
    _say(_image_of(arguments).outcome(arguments.seconds))


def _keep_image(arguments: argparse.Namespace) -> None:
    _say(_image_of(arguments).keep())


def _save_tree(arguments: argparse.Namespace) -> None:
    bounds = (arguments.max_bytes, arguments.rate)
    image, let_go_s = _image_of(arguments), arguments.let_go
    _say(image.save(arguments.number, arguments.until, bounds, let_go_s=let_go_s))


def _image_facts(arguments: argparse.Namespace) -> None:
    _say(_image_of(arguments).facts())


def _image_of(arguments: argparse.Namespace) -> OwnImage:
    return OwnImage(run=arguments.run, criu=tuple(arguments.criu))


def _drop_image(arguments: argparse.Namespace) -> None:
    _say({"dropped": own_image.drop(arguments.folders)})


def _say(document: object) -> None:
    json.dump(document, sys.stdout)


_Action = Callable[[argparse.Namespace], None]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    errands = parser.add_subparsers(required=True)

    def errand(name: str, action: _Action) -> argparse.ArgumentParser:
        one = errands.add_parser(name)
        one.set_defaults(action=action)
        return one

    _add_on_run(errand)
    _add_of_image(errand)
    errand("clear", _clear).add_argument("folders", type=Path, nargs="*")
    errand("erase", _erase).add_argument("folder", type=Path)
    return parser


def _add_on_run(errand: Callable[[str, _Action], argparse.ArgumentParser]) -> None:
    """Errands in the working folder of a run."""

    def on_run(name: str, action: _Action) -> argparse.ArgumentParser:
        one = errand(name, action)
        one.add_argument("run", type=Path)
        one.add_argument("--snapshot", action="store_true")
        one.add_argument("--max-bytes", type=int, default=0)
        return one

    make = on_run("make", _make)
    make.add_argument("--home", type=Path)
    make.add_argument("--below")
    make.add_argument("--link", dest="links", action="append", default=[])
    on_run("take-over", _take_over).add_argument("earlier", type=Path, nargs="*")
    count = on_run("count", _count)
    count.add_argument("--seconds", type=float)
    count.add_argument("earlier", type=Path, nargs="*")
    on_run("send", _send).add_argument("--only", default="")
    give = on_run("give-back", _give_back)
    give.add_argument("home", type=Path)
    give.add_argument("below")
    give.add_argument("--job", required=True)
    give.add_argument("--job-id", required=True)


def _add_of_image(errand: Callable[[str, _Action], argparse.ArgumentParser]) -> None:
    """Errands with the saved processes of a run; all take what any of them asks for."""
    for name, action in (
        ("ready-tree", _ready_tree),
        ("anew-tree", _anew_tree),
        ("tree-outcome", _tree_outcome),
        ("keep-image", _keep_image),
        ("save-tree", _save_tree),
        ("image-facts", _image_facts),
    ):
        one = errand(name, action)
        one.add_argument("run", type=Path)
        one.add_argument("earlier", type=Path, nargs="*")
        one.add_argument("--number", type=int, default=0)
        one.add_argument("--promised", default="")
        one.add_argument("--criu", type=json.loads, default=[])
        one.add_argument("--seconds", type=float, default=0)
        one.add_argument("--until", type=float, default=0)
        one.add_argument("--let-go", type=float, default=None)
        one.add_argument("--max-bytes", type=int, default=0)
        # Asked by supervisors that began before they looked at it themselves.
        one.add_argument("--rate", type=int, default=0)
    errand("drop-image", _drop_image).add_argument("folders", type=Path, nargs="*")


def main() -> int:
    """Run one errand."""
    arguments = _parser().parse_args()
    try:
        arguments.action(arguments)
    except (Refused, OSError, ValueError, tarfile.TarError) as error:
        sys.stderr.write(f"gpucommons: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
