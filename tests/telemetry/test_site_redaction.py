"""What a site masks beyond secrets: by its own patterns, addresses, whose home a path is in."""

import pytest

from connectors.site import SiteError, read_site
from engine.extract.redact import Redactor
from functions.adapters.site_file import redactor_of


def redactor(text):
    return redactor_of(read_site(f"version: 1\nredaction: {text}\n".encode(), shown="s.yaml"))


def test_a_site_s_pattern_masks_its_first_group():
    masked = redactor("{patterns: ['ticket=(ABC-[0-9]+)']}").text("see ticket=ABC-123 now")
    assert masked == "see ticket=[redacted] now"


def test_addresses_are_masked_where_a_site_wants_it_and_only_there():
    line = "mail to ada.lovelace+x@example.org: failed"
    assert redactor("{emails: 'true'}").text(line) == "mail to [redacted]: failed"
    assert Redactor().text(line) == line


def test_a_home_s_owner_is_masked_and_the_rest_of_the_path_stays():
    line = 'File "/nfs/home/ada/train.py", line 3, in /Users/ada'
    assert redactor("{home_paths: 'true'}").text(line) == (
        'File "/nfs/home/[redacted]/train.py", line 3, in /Users/[redacted]'
    )
    assert Redactor().text(line) == line


def test_masking_twice_changes_nothing():
    both = redactor("{emails: 'true', home_paths: 'true'}")
    once = both.text("/home/ada/x ada@example.org")
    assert both.text(once) == once


@pytest.mark.parametrize("pattern", ["(a", r"(a)\\1"])
def test_a_pattern_that_cannot_be_kept_to_time_is_refused(pattern):
    with pytest.raises(SiteError, match="is no pattern"):
        redactor(f'{{patterns: ["{pattern}"]}}')
