import re
import socket
import subprocess
import sys

import pytest

from gpucommons.gpu.connections.listening import listen_tcp
from gpucommons.idle_culler.app import CullerApp
from gpucommons.idle_culler.idle_limits import Limits, Rules, changed

MINUTE = 60_000


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "secret-token")
    monkeypatch.setenv("JUPYTERHUB_API_URL", "http://127.0.0.1:1/hub/api")
    monkeypatch.setenv("GPUCOMMONS_URL", "http://127.0.0.1:1")


def test_every_setting_has_a_help_text() -> None:
    own = CullerApp.class_own_traits(config=True)
    assert own
    assert [name for name, trait in own.items() if not trait.help] == []


def test_flags_reach_the_rules() -> None:
    app = CullerApp()
    app.initialize(["--idle-after-s=600", "--warn-after-s=300", "--dry-run"])
    limits = app._rules().of(pool="build", team="vision")
    assert (limits.idle_after_ms, limits.lead_ms) == (600_000, 300_000)
    assert app.dry_run


def test_a_config_file_sets_limits_and_the_command_line_wins(tmp_path: object) -> None:
    path = f"{tmp_path}/culler.py"
    with open(path, "w") as file:  # noqa: PTH123 - the fixture's path as text
        file.write(
            "c.CullerApp.idle_after_s = 900\nc.CullerApp.warn_after_s = 100\n"
            "c.CullerApp.per_pool = {'train': {'warn_after_s': 50}}\n"
        )
    app = CullerApp()
    app.initialize([f"--config={path}", "--idle-after-s=800"])
    rules = app._rules()
    assert rules.of(pool="build", team="a").idle_after_ms == 800_000
    assert rules.of(pool="train", team="a").warn_after_ms == 50_000


@pytest.mark.parametrize(
    ("argument", "sentence"),
    [
        ("--warn-after-s=9999", "the warning must come first"),
        ("--idle-after-s=soon", "expected an int"),
        ("--idle-after-s=0", "should not be less than 1"),
        ("--on-idle=release", "a setting of pools"),
        ("--per-pool=train={'idle': 5}", "There is no limit 'idle'"),
        ("--per-team=vision={'idle_after_s': -5}", "write whole seconds"),
        ("--per-team=vision={'on_idle': 'x'}", "a setting of pools"),
    ],
)
def test_mistakes_end_the_program_with_a_sentence(
    argument: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        CullerApp().initialize([argument])
    assert caught.value.code != 0
    captured = capsys.readouterr()
    assert sentence in captured.err + captured.out


def test_without_a_token_it_says_what_is_needed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("JUPYTERHUB_API_TOKEN")
    with pytest.raises(SystemExit):
        CullerApp().initialize([])
    assert "JUPYTERHUB_API_TOKEN" in capsys.readouterr().err


def test_one_cycle_without_scheduler_or_hub_ends_well_and_keeps_the_secret() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gpucommons.idle_culler", "--once", "--plain-idle-after-s=60"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "cannot be reached" in done.stderr
    assert "secret-token" not in done.stderr + done.stdout


@pytest.mark.parametrize("limit", ["--plain-idle-after-s=60", "--plain-max-age-s=60"])
def test_either_limit_of_plain_servers_has_them_looked_at(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GPUCOMMONS_URL")
    done = subprocess.run(
        [sys.executable, "-m", "gpucommons.idle_culler", "--once", limit],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "JupyterHub does not answer" in done.stderr


def test_the_examples_of_the_help_start() -> None:
    helps = [str(trait.help) for trait in CullerApp.class_own_traits(config=True).values()]
    examples = [one for text in helps for one in re.findall(r'(--[a-z-]+)="([^"]+)"', text)]
    assert examples
    for flag, value in examples:
        CullerApp().initialize([f"{flag}={value}"])


@pytest.mark.parametrize(
    ("arguments", "address"), [([], "127.0.0.1"), (["--metrics-address=10.0.0.7"], "10.0.0.7")]
)
async def test_metrics_are_served_where_they_should_be(
    arguments: list[str], address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[tuple[int, str]] = []

    def listen(port: int, host: str) -> socket.socket:
        served.append((port, host))
        return listen_tcp(0)

    monkeypatch.setattr("gpucommons.idle_culler.app.listen_tcp", listen)
    app = CullerApp()
    app.initialize(["--once", "--metrics-port=9", *arguments])
    await app._run(app._rules(), app._token())
    assert served == [(9, address)]


def test_a_teams_words_win_over_its_pools() -> None:
    rules = Rules(
        per_pool={"train": {"idle_after_s": 7200}}, per_team={"nlp": {"idle_after_s": 10_800}}
    )
    hours = {
        (pool, team): rules.of(pool=pool, team=team).idle_after_ms // (60 * MINUTE)
        for pool in ("build", "train")
        for team in ("vision", "nlp")
    }
    assert hours == {
        ("build", "vision"): 1,
        ("train", "vision"): 2,
        ("build", "nlp"): 3,
        ("train", "nlp"): 3,
    }


def test_combinations_that_cannot_be_are_refused_at_the_start() -> None:
    with pytest.raises(ValueError, match="the warning must come first"):
        Rules(
            per_pool={"train": {"idle_after_s": 600, "warn_after_s": 300}},
            per_team={"nlp": {"warn_after_s": 700}},
        )


def test_zero_means_unverified_for_ever() -> None:
    assert changed(Limits(), {"unverified_after_s": 0}).unverified_after_ms is None
