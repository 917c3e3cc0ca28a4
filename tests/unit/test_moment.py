import pytest

from engine.model.moment import parse_rfc3339, rfc3339, to_us


def test_a_moment_beyond_the_calendar_becomes_its_edge():
    assert rfc3339(10**30) == "9999-12-31T23:59:59.999999Z"
    assert rfc3339(-(10**30)) == "0001-01-01T00:00:00Z"


def test_an_early_year_keeps_its_zeros():
    assert rfc3339(to_us(parse_rfc3339("0962-02-03T04:05:06.5Z"))) == "0962-02-03T04:05:06.5Z"


@pytest.mark.parametrize(
    "text", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00", "2025-02-30", "-1"]
)
def test_a_time_that_cannot_be_read_is_named_in_the_error(text):
    with pytest.raises(ValueError, match="is no RFC 3339 time"):
        parse_rfc3339(text)


def test_an_offset_of_more_than_a_day_is_no_timezone():
    with pytest.raises(ValueError, match="unknown timezone"):
        parse_rfc3339("2025-01-01T00:00:00", "+99:99")
