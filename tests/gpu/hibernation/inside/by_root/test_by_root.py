"""Where users may make no namespaces root starts a tree: as its user, and nothing in it has a right."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.hibernation import forbidding, forbidding_users, hostile
from gpucommons.gpu.hibernation.criu import Criu
from gpucommons.gpu.hibernation.files_image import BYTES, NUMBER, Field, encoded
from gpucommons.gpu.hibernation.inside.by_root import namespace, rights
from gpucommons.gpu.hibernation.inside.by_root.checked_copy import fill, is_without_rights
from gpucommons.gpu.hibernation.inside.tree_settings import Account

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root starts trees for others")
#: How CRIU's files of threads begin.
BEGINNING = bytes.fromhex("1943565447380555")
NONE = {9: (0, 0), 10: (0, 0), 11: (0, 0), 12: (0, 0), 19: (0, 0)}


def message(*parts: tuple[int, int | bytes]) -> bytes:
    kinds = {int: NUMBER, bytes: BYTES}
    return b"".join(encoded(Field(number, kinds[type(value)], value)) for number, value in parts)


def credentials(sets: Mapping[int, tuple[int, ...]]) -> bytes:
    named = [(number, half) for number, halves in sets.items() for half in halves]
    return message((1, 2001), *named, (13, 0))


def a_file(*told: bytes) -> bytes:
    record = message((1, 1), (5, message((7, b"sas"), *((10, one) for one in told))))
    return BEGINNING + len(record).to_bytes(4, "little") + record


def test_a_thread_without_capabilities_may_wake() -> None:
    assert is_without_rights(a_file(credentials(NONE)))
    assert is_without_rights(a_file(credentials({**NONE, 19: ()})))


@given(number=st.sampled_from(sorted(NONE)), half=st.sampled_from([0, 1]), bit=st.integers(0, 31))
def test_a_thread_with_any_capability_may_not(number: int, half: int, bit: int) -> None:
    halves = [0, 0]
    halves[half] = 1 << bit
    assert not is_without_rights(a_file(credentials({**NONE, number: tuple(halves)})))


def an_ended(*parts: tuple[int, int | bytes]) -> bytes:
    record = message((1, 1), *parts)
    return BEGINNING + len(record).to_bytes(4, "little") + record


def test_a_process_that_has_ended_has_no_thread_and_may_wake() -> None:
    assert is_without_rights(an_ended((3, message((1, 2), (2, 256)))))


@pytest.mark.parametrize(
    "content",
    [
        an_ended(),
        an_ended((3, b"")),
        an_ended((3, message((2, 0)))),
        *(an_ended((3, message((1, state)))) for state in (0, 1, 3, 4, 5, 255, (1 << 32) + 2)),
        # Readers take the last of several.
        an_ended((3, message((1, 2), (1, 1)))),
        an_ended((3, message((1, 2))), (3, message((1, 1)))),
        an_ended((3, message((1, 2))), (3, 1)),
        an_ended((3, message((1, 2)) + b"\x8a\x80\x80\x80\x10\x00")),
        an_ended((3, message((1, 2))), (5, message((10, credentials({**NONE, 10: (0, 256)}))))),
        an_ended((3, message((1, 2))), (5, b"")),
    ],
)
def test_what_only_looks_as_if_it_had_ended_may_not(content: bytes) -> None:
    assert not is_without_rights(content)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 8,
        a_file(),
        a_file(credentials({**NONE, 10: ()})),
        a_file(credentials({**NONE, 10: (0, 0, 256)})),
        a_file(credentials(NONE), credentials({**NONE, 10: (0, 256)})),
        # Several numbers in one field, which readers take as well.
        a_file(credentials({**NONE, 10: ()}) + message((10, b"\0\x80\x02"))),
        # A key that a reader of 32 bits takes for field 10.
        a_file(credentials(NONE) + b"\xd0\x80\x80\x80\x10\x01"),
        a_file(credentials(NONE))[:-3],
        # Only the first record is read.
        a_file(credentials(NONE)) + a_file(credentials(NONE))[8:],
        # A length that a reader of 32 bits takes for 0, so that the rest is no part of it.
        a_file(credentials(NONE) + b"\x82\x7d\x80\x80\x80\x80\x10" + message((10, 256))),
        # One half of the number in front: CRIU's first format, whose record begins sooner.
        BEGINNING[4:] + a_file(credentials(NONE))[4:],
        b"\0" * 8 + a_file(credentials(NONE))[8:],
    ],
)
def test_what_is_not_as_criu_writes_it_may_not(content: bytes) -> None:
    assert not is_without_rights(content)


@given(content=st.binary(max_size=200))
def test_no_content_stops_the_check(content: bytes) -> None:
    assert is_without_rights(content) in (True, False)


def test_rights_are_read_from_a_copy_and_memory_from_where_it_lies(tmp_path: Path) -> None:
    image, place = tmp_path / "image", tmp_path / "place"
    image.mkdir()
    place.mkdir()
    (image / "core-2.img").write_bytes(a_file(credentials(NONE)))
    (image / "pages-1.img").write_bytes(b"memory")
    (image / "parent").symlink_to(tmp_path)

    assert fill(place, image) is None

    assert not (place / "core-2.img").is_symlink()
    assert (place / "pages-1.img").readlink() == image / "pages-1.img"
    assert sorted(path.name for path in place.iterdir()) == ["core-2.img", "pages-1.img"]


def test_a_link_in_place_of_what_names_rights_is_not_followed(tmp_path: Path) -> None:
    image, place = tmp_path / "image", tmp_path / "place"
    image.mkdir()
    place.mkdir()
    (tmp_path / "elsewhere").write_bytes(a_file(credentials(NONE)))
    (image / "core-2.img").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(OSError, match="symbolic links"):
        fill(place, image)


@as_root
@pytest.mark.parametrize("account", [Account(uid=0, gid=0), Account(uid=2001, gid=0)])
def test_root_itself_is_never_saved_this_way(account: Account) -> None:
    with pytest.raises(rights.NotAllowed, match="wake as root"):
        rights.become(account)
    assert os.getresuid() == (0, 0, 0)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may")
def test_nobody_else_starts_trees_for_others() -> None:
    with pytest.raises(rights.NotAllowed, match="Only root"):
        rights.become(Account(uid=2001, gid=2001))


#: Becomes a user, and tells who that is, whether in a namespace, and which rights it may use there.
_BECOMES = """
import os, sys
from gpucommons.gpu.hibernation.inside import calls
from gpucommons.gpu.hibernation.inside.by_root import namespace, rights
from gpucommons.gpu.hibernation.inside.tree_settings import Account
outside = os.readlink("/proc/self/ns/user")
rights.become(Account.from_word(sys.argv[1]))
print(os.getresuid(), sorted(os.getgroups()), os.readlink("/proc/self/ns/user") != outside,
      sorted(calls.permitted()) == sorted((8, 21, 25, 40)))
"""


def becomes(word: str, *before: str) -> str:
    words = [*before, sys.executable, "-c", _BECOMES, word]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.stdout.strip() or done.stderr


@as_root
def test_root_makes_a_user_namespace_for_whoever_may_make_none() -> None:
    if not namespace.can_be_made():
        pytest.skip("not even root may make one here")
    assert becomes("2001:2001:2001,7,65534") == "(2001, 2001, 2001) [7, 2001, 65534] True True"


@as_root
def test_who_is_in_more_groups_than_a_namespace_knows_gets_none() -> None:
    many = ",".join(map(str, range(5000, 5400)))
    assert becomes(f"2001:2001:{many}").endswith("] False True")


@as_root
def test_where_not_even_root_may_make_one_there_is_none() -> None:
    said = becomes("2001:2001:7", sys.executable, "-m", forbidding.__name__)
    assert said == "(2001, 2001, 2001) [7] False True"


def test_who_leaves_while_rights_are_looked_for_is_looked_for_again() -> None:
    looks = iter([(1 << 30,), (os.getpid(),)])

    assert rights.any_of(lambda: next(looks)) == (os.geteuid() == 0 or not _may_gain_nothing())


@as_root
def test_what_has_ended_has_no_rights_any_more() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)

    assert not rights.any_of(lambda: (ended.pid,))
    ended.wait()


def test_rights_that_nobody_can_look_for_are_taken_for_rights() -> None:
    assert rights.any_of(lambda: (1 << 30,))


def _may_gain_nothing() -> bool:
    status = Path("/proc/self/status").read_text()
    return "NoNewPrivs:\t1" in status and not re.search(
        r"^Cap\w+:\t.*[1-9a-f]", status, re.MULTILINE
    )


def test_an_account_survives_its_way_through_a_command_line() -> None:
    for account in (Account(uid=1, gid=2), Account(uid=3, gid=4, groups=(5, 6))):
        assert Account.from_word(account.as_word()) == account


# --- with a real CRIU, and namespaces of users forbidden ------------------------------------------

#: Plays in a process of its own, as what is forbidden stays so.
_PLAY = """
import json, sys
from pathlib import Path
from benchmarks.hibernation import from_outside, hostile
from gpucommons.gpu.hibernation.criu import Criu
from gpucommons.gpu.hibernation.self_test import self_test_for_users
folder, criu = Path(sys.argv[1]), Criu(command=tuple(json.loads(sys.argv[2])), version="4.2")
with hostile.ground(folder, criu, by_root=sys.argv[3] == "root") as ground:
    print(getattr(from_outside, sys.argv[4], getattr(hostile, sys.argv[4], None))(ground))
"""


@pytest.fixture
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="by-root-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def played(place: Path, criu: Criu, who: str, what: str, forbids: ModuleType = forbidding) -> str:
    if not (shutil.which("setpriv") and Path("/usr/bin/python3").exists()):
        pytest.skip("needs setpriv(1) and an interpreter that every user may run")
    words = [sys.executable, "-c", _PLAY, str(place), json.dumps(criu.command), who, what]
    done = subprocess.run(
        [sys.executable, "-m", forbids.__name__, *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(hostile.__file__).parents[2],
    )
    return done.stdout.strip() or done.stderr


@as_root
@pytest.mark.criu
def test_a_process_is_saved_and_woken_without_namespaces_of_users(criu: Criu, place: Path) -> None:
    assert played(place, criu, "root", "honest_wakes") == "True"


@as_root
@pytest.mark.criu
@pytest.mark.parametrize("forbids", [forbidding, forbidding_users])
def test_there_its_user_alone_cannot(criu: Criu, place: Path, forbids: ModuleType) -> None:
    said = played(place, criu, "user", "honest_wakes", forbids)
    assert "forbids users what saving a process needs" in said


@as_root
@pytest.mark.criu
@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("honest_wakes", "True"),
        ("threads_that_wake_from_outside", "None"),
        # What is forbidden to a user stays so in the namespace that root made for them.
        ("namespaces_within", "None"),
    ],
)
def test_where_only_root_may_make_namespaces_it_makes_one_for_its_user(
    criu: Criu, place: Path, what: str, said: str
) -> None:
    assert played(place, criu, "root", what, forbidding_users) == said


@as_root
@pytest.mark.criu
def test_without_the_check_the_capability_would_be_left_in_what_wakes(
    criu: Criu, place: Path
) -> None:
    """The tries above are worth something only where they would succeed."""
    with hostile.ground(place, criu, by_root=True) as ground:
        package = ground.init.parent
        copy = package / "inside" / "by_root" / "checked_copy.py"
        copy.write_text(copy.read_text().replace("not is_without_rights(content)", "False"))
        _without_second_look(package)
        got = hostile.image_asks_for_the_capability_of_criu(ground)
    assert got is not None
    assert "0000010000000000" in got


def _without_second_look(package: Path) -> None:
    look = package / "inside" / "by_root" / "rights.py"
    changed = re.sub(
        r"for _ in range\(_MOST_LOOKS\).*", "return False\n", look.read_text(), flags=re.DOTALL
    )
    look.write_text(changed)


@as_root
@pytest.mark.criu
@pytest.mark.parametrize(
    "play",
    [
        hostile.image_asks_for_the_capability_of_criu,
        hostile.image_asks_for_it_in_the_first_format,
    ],
    ids=lambda one: one.__name__,
)
def test_the_first_look_holds_alone(
    play: Callable[[hostile.Ground], str | None], criu: Criu, place: Path
) -> None:
    """The same user can halt PID 1 from outside before it looks a second time."""
    with hostile.ground(place, criu, by_root=True) as ground:
        _without_second_look(ground.init.parent)
        assert play(ground) is None


@as_root
@pytest.mark.criu
def test_what_slips_through_is_ended_before_it_does_anything(criu: Criu, place: Path) -> None:
    with hostile.ground(place, criu, by_root=True) as ground:
        copy = ground.init.parent / "inside" / "by_root" / "checked_copy.py"
        copy.write_text(copy.read_text().replace("not is_without_rights(content)", "False"))
        assert hostile.image_asks_for_the_capability_of_criu(ground) is None
