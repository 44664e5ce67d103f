"""CRIU's log becomes a sentence that names what stood in the way."""

from __future__ import annotations

import errno

import pytest

from gpucommons.gpu.hibernation import refusals

#: As CRIU 4.2.1 wrote them here.
SAVING = {
    "inet: Connected TCP socket, consider using --tcp-established option.": (
        "It holds a network connection."
    ),
    "send_fds failed (-22)": "It uses io_uring.",
    "unix: Non-empty write queue on an in-flight socket 0x100894": (
        "It has called one of its own programs and sent data, and the call was not taken yet."
    ),
    "Can't dump file 3 of that type [600] (anon anon_inode:[userfaultfd])": "It uses userfaultfd.",
    "Task 2 with SysVIPC shmem map @7fe4eb920000 doesn't live in IPC ns": (
        "It uses System V shared memory."
    ),
    "fsnotify: \tCan't dump that handle": "It watches files for changes (inotify).",
    "Can't dump nested user namespace for 3": "It made a user namespace of its own.",
    "suspending seccomp failed: Operation not permitted": (
        "It installed a filter of system calls (seccomp) of its own."
    ),
    "Can't open mapped [/dev/shm/sem.UIQGE7 (deleted)]: No such file or directory": (
        "It uses a semaphore (/dev/shm/sem.UIQGE7), as multiprocessing's locks and pools do."
    ),
    "Can't open mapped [/dev/shm/pym-2-j53f (deleted)]: No such file or directory": (
        "It uses memory of a file that was removed (/dev/shm/pym-2-j53f)."
    ),
    "Can't create link remap for /data/a. Use link-remap option.": (
        "It holds /data/a, whose name was removed."
    ),
    "Unseizable non-zombie 3 found, state t, err -1/10": "It is watched by a debugger.",
    "Something new": "It cannot be saved: CRIU says “Something new”.",
}
WAKING = {
    "File /data/q.so has bad size 24056 (expect 15008)": (
        "/data/q.so was open, and it changed since."
    ),
    "Can't open file home/data on restore: Permission denied": (
        "/home/data was open, and it cannot be opened now."
    ),
    "Unable to restore capabilities: -1": "It wants rights that its user has not.",
    "inet: Can't bind inet socket (id 15): Address already in use": (
        "A port that it listens on is taken."
    ),
}
REST = "\n(00.1) Error (criu/cr-dump.c:1975): Dumping FAILED."


@pytest.mark.parametrize("said", SAVING)
def test_a_save_that_failed(said: str) -> None:
    log = f"(00.1) Warn  (criu/x.c:1): nothing\n(00.1) Error (criu/x.c:20): {said}{REST}"

    assert refusals.of_save(log, late=False) == SAVING[said]


@pytest.mark.parametrize("said", WAKING)
def test_a_wake_that_failed(said: str) -> None:
    log = f"(00.1)      2: Error (criu/x.c:20): {said}{REST}"

    assert refusals.of_wake(log, late=False) == WAKING[said]


def test_a_log_without_a_word_is_told_so() -> None:
    assert refusals.of_save("", late=False) == "It cannot be saved: CRIU ended without a word."
    assert "longer than there was time" in refusals.of_save("", late=True)


def test_a_full_disk_is_called_full() -> None:
    assert refusals.of_disk(OSError(errno.ENOSPC, "x")) == "The disk is full."
    assert refusals.of_disk(OSError(errno.EDQUOT, "x")) == "Your quota on this disk is used up."
