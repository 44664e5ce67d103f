"""What a user's account is called, where it is not called as the user."""

from __future__ import annotations

import argparse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpucommons.gpu.account_names import (
    USERNAME,
    account_name,
    account_template,
    user_of_account,
)

THEIRS = "jupyter-{username}"


@pytest.mark.parametrize(
    ("user", "named"),
    [
        ("ann", "jupyter-ann"),
        # As `tljh.normalize.generate_system_username` of The Littlest JupyterHub 2.0 names them.
        ("x" * 17, "jupyter-xxxxxxxxxxxxxxxxx"),
        # It cuts those as jupyter-xxxxxxxxxxxxxxxxxx-08411: 20 bits tell them apart.
        ("x" * 18, "jupyter-xxxxxxx-bbarq35ewqdf3xtn"),
        ("x" * 30, "jupyter-xxxxxxx-zvte2tcc2jqb2rqi"),
    ],
)
def test_short_names_are_those_of_the_littlest_jupyterhub_and_long_ones_are_told_apart(
    user: str, named: str
) -> None:
    assert account_name(THEIRS, user) == named


@given(st.text(max_size=60))
def test_as_the_user_means_to_the_letter_and_others_fit_a_system(user: str) -> None:
    assert account_name(USERNAME, user) == user
    assert len(account_name(THEIRS, user)) <= 32


@given(
    st.sampled_from([USERNAME, THEIRS, "{username}-gpu", "a{username}a"]),
    st.text("ajuptery-1gu", max_size=40),
    st.text("ajuptery-1gu", max_size=40),
)
def test_an_account_is_one_users_or_nobodys(template: str, user: str, other: str) -> None:
    assert user_of_account(template, account_name(template, user)) in (user or None, None)
    if (found := user_of_account(template, other)) is not None:
        assert account_name(template, found) == other


@pytest.mark.parametrize(
    ("account", "user"),
    [
        ("jupyter-ann", "ann"),
        ("ann", None),
        ("jupyter-", None),
        ("jupyter-xxxxxxx-bbarq35ewqdf3xtn", None),
        ("jupyter-jupyter-ann", "jupyter-ann"),
    ],
)
def test_whose_account_it_is(account: str, user: str | None) -> None:
    assert user_of_account(THEIRS, account) == user


@pytest.mark.parametrize("text", ["jupyter", "", "{username}-{username}", "{user}"])
def test_one_account_for_all_is_no_template(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="in it once"):
        account_template(text)
