import pytest

from engine.model.hostlist import expand_hostlist


@pytest.mark.parametrize("text", ["n[1-2-3]", "n[-5]", "n[1--5]", "n[1-" + "9" * 5000 + "]"])
def test_brackets_that_are_no_ranges_are_part_of_the_name(text):
    assert expand_hostlist(text) == [text]


def test_ranges_keep_their_leading_zeros():
    assert expand_hostlist("n[08-10,3],m") == ["n08", "n09", "n10", "n3", "m"]
