"""Member ids say which of two processes of an instance registered later."""

from __future__ import annotations

import pytest
from hightide_coordinator.core.values.member_id import age_of, made_member_id


def test_ids_have_the_order_in_which_they_were_made_over_all_coordinators() -> None:
    made = [made_member_id(epoch, count, "5ec2e7") for epoch, count in ((9, 9), (9, 10), (10, 1))]
    ages = [age_of(each) for each in made]
    assert ages == [(9, 9), (9, 10), (10, 1)]


@pytest.mark.parametrize(
    "member_id",
    ["", "made-up", "5d41402abc4b2a76b9719d911017c592", "1-2", "1-2-", "-1-2-x", "٣-2-x", f"{'1' * 249}-1-x"],
)
def test_what_no_coordinator_of_this_version_made_has_no_age(member_id: str) -> None:
    assert age_of(member_id) is None
