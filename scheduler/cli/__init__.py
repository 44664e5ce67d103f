"""``gpucommons``: everything the screens can do, from a terminal.

Exit codes: 0 done · 1 refused (the sentence says why) · 2 wrong command line or file · 3 the
scheduler cannot be reached · 4 no such thing · 5 not allowed · 130 interrupted.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence

from gpucommons.gpu.extras import MissingExtra
from gpucommons.scheduler.cli.commands import build_parser, names
from gpucommons.scheduler.cli.present import printable
from gpucommons.scheduler.cli.submit.parameters import in_one_word
from gpucommons.scheduler.errors import (
    BadRequest,
    Forbidden,
    NotAuthenticated,
    NotFound,
    SchedulerError,
    Unavailable,
)

INTERRUPTED = 130

#: First match wins.
EXIT_CODES: tuple[tuple[type[Exception], int], ...] = (
    (BadRequest, 2),
    (ValueError, 2),
    (MissingExtra, 1),
    (OSError, 2),
    (Unavailable, 3),
    (NotFound, 4),
    (Forbidden, 5),
    (NotAuthenticated, 5),
    (SchedulerError, 1),
)

_SCRIPTS = (".py", ".ipynb")


def _sentence(error: Exception) -> str:
    if not isinstance(error, ValueError):
        return str(error)
    # Not before there is such an error: it takes longer to load than most commands to look it up.
    from pydantic import ValidationError  # noqa: PLC0415 - see above

    from gpucommons.scheduler.models.text.field_errors import (  # noqa: PLC0415
        listed,
        mistakes,
        named,
    )

    if not isinstance(error, ValidationError):
        return str(error)
    parts = (f"{named(item['loc']) or 'job'}: {text}" for item, text in mistakes(error))
    return listed(parts, error)


def _no_command(word: str) -> str:
    """Of a word where a command stands; a list of all of them hides the one that was meant."""
    # Loaded only here, as above.
    from gpucommons.scheduler.models.text.field_errors import did_you_mean  # noqa: PLC0415

    meant = did_you_mean(word, names())
    return f"there is no command {word!r}; {meant or 'see gpucommons --help'}"


def _unknown(arguments: argparse.Namespace, unknown: Sequence[str], given: Sequence[str]) -> str:
    """What to do about words that no option takes."""
    words = shlex.join(unknown)
    if arguments.command != "submit" or "--" in given or not getattr(arguments, "script", None):
        return f"unrecognized arguments: {words}"
    if arguments.script.suffix not in _SCRIPTS:
        command = shlex.join([str(arguments.script), *unknown])
        return (
            f"{arguments.script} is no script or notebook. A command stands behind --:"
            f" gpucommons submit -- {command}"
        )
    return (
        f"submit has no option {unknown[0]}. What is meant for the script stands behind --:"
        f" gpucommons submit {shlex.quote(str(arguments.script))} -- {words}"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    given = list(sys.argv[1:] if argv is None else argv)
    # What follows `--` belongs to the submitted script, whatever it looks like.
    end = given.index("--") if "--" in given else len(given)
    try:
        words = in_one_word(given[:end]) if given[:1] == ["submit"] else given[:end]
    except BadRequest as error:
        return _refused(error)
    parser = build_parser(words)
    if words and not words[0].startswith("-") and words[0] not in names():
        parser.error(_no_command(words[0]))
    arguments, unknown = parser.parse_known_args(words)
    if unknown:
        arguments.refuse(_unknown(arguments, unknown, given))
    arguments.arguments = given[end + 1 :]
    try:
        return int(arguments.run(arguments))
    except KeyboardInterrupt:
        # What was asked of the scheduler stands: Ctrl-C ends looking, never the job.
        sys.stderr.write("\n")
        return INTERRUPTED
    except BrokenPipeError:
        # `gpucommons jobs | head`: the reader has enough.
        sys.stderr.close()
        return 0
    except (SchedulerError, ValueError, OSError) as error:
        return _refused(error)


def _refused(error: Exception) -> int:
    sys.stderr.write(f"gpucommons: {printable(_sentence(error))}\n")
    return next(code for kind, code in EXIT_CODES if isinstance(error, kind))
