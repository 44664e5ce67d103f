"""The command by which a trigger's data are looked at: in the owner's name, beside their other jobs.

The last line that it prints is the version. Nothing of ours is imported there, for the job may run in
any image that has Python.
"""

from __future__ import annotations

from gpucommons.scheduler.schedules.triggers import Trigger, TriggerKind

#: Versions are shown, and compared, up to here.
LONGEST = 100

#: Content up to a GiB together; of what lies beyond, sizes and times of change.
_PATH = r"""
import hashlib, os, sys
top = os.path.abspath(os.path.expanduser(sys.argv[1]))
if not os.path.exists(top):
    sys.exit(f"There is no {sys.argv[1]} for you.")
found, count, size = hashlib.sha256(), 0, 0
def look(path):
    global count, size
    with open(path, "rb") as file:
        facts = os.fstat(file.fileno())
        found.update(f"{os.path.relpath(path, top)}\0{facts.st_size}\0".encode(errors="replace"))
        count, size = count + 1, size + facts.st_size
        if size > 1 << 30:
            found.update(str(facts.st_mtime_ns).encode())
            return
        for part in iter(lambda: file.read(1 << 20), b""):
            found.update(part)
if os.path.isfile(top):
    look(top)
def fail(error):
    sys.exit(f"{error.filename} cannot be read: {error.strerror}.")
for folder, folders, names in () if count else os.walk(top, onerror=fail):
    folders.sort()
    for name in sorted(names):
        path = os.path.join(folder, name)
        try:
            if os.path.isfile(path):
                look(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            fail(error)
unit = next(each for each in (0, 10, 20, 30, 40) if size < 1000 << each or each == 40)
words = ("B", "KiB", "MiB", "GiB", "TiB")[unit // 10]
print(f"{found.hexdigest()[:12]} ({count} {'file' if count == 1 else 'files'}, {size / (1 << unit):.3g} {words})")
"""

_URL = r"""
import sys, urllib.error, urllib.request
request = urllib.request.Request(sys.argv[1], method="HEAD")
try:
    with urllib.request.urlopen(request, timeout=30) as answer:
        known = answer.headers
except urllib.error.HTTPError as error:
    sys.exit(f"It answers {error.code} {error.reason}.")
except OSError as error:
    sys.exit(f"It does not answer: {getattr(error, 'reason', error)}.")
for name in ("x-amz-version-id", "ETag", "Last-Modified"):
    if known.get(name, "null") != "null":
        print(known[name].strip('"'))
        break
else:
    sys.exit("It tells neither a version nor an ETag nor when it was changed.")
"""


def command_of(trigger: Trigger) -> list[str]:
    """What one look runs."""
    if trigger.kind is TriggerKind.COMMAND:
        return list(trigger.command)
    source = _PATH if trigger.kind is TriggerKind.PATH else _URL
    return ["python", "-c", source, trigger.what]


def version_in(lines: list[str]) -> str:
    """The version that a look's log ends with; "" where it tells none."""
    return last_line(lines)[:LONGEST]


def last_line(lines: list[str]) -> str:
    """The last one that says something, without what no page shows; "" where none does."""
    told = ("".join(c for c in line if c.isprintable()).strip() for line in reversed(lines))
    return next(filter(None, told), "")
