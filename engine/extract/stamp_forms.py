"""The written forms of stamps in job, daemon and kernel logs, each with a sample."""

import re
from typing import Final

_SECOND: Final = 1_000_000
MONTHS: Final = {
    name: number
    for number, name in enumerate(
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), 1
    )
}
_FRACTION = r"(?:[.,:](\d{1,9})(?!\d))?"
_CLOCK = r"(\d\d):(\d\d):(\d\d)" + _FRACTION
_ZONE = r" ?(Z\b|UTC\b|GMT\b|[+-]\d\d:?\d\d\b)?"

# 2023-04-29 06:00:41.120, 2020-05-05T16:13:44.880Z, 2025/01/10 15:27:25, 2025-02-25_20:12:31
ISO: Final = re.compile(r"(\d{4})[-/](\d\d?)[-/](\d\d?)[T _]{1,2}" + _CLOCK + _ZONE)
SHORT: Final = re.compile(r"(\d\d)-(\d\d)-(\d\d) " + _CLOCK + _ZONE)  # 22-09-01 02:31:11.512
SLASHED: Final = re.compile(r"(\d\d)/(\d\d)/(\d{4}),? " + _CLOCK + _ZONE)  # 29/04/2023 06:00:58
MONTH_DAY: Final = re.compile(r"(\d\d)[-/](\d\d) " + _CLOCK)  # vLLM: INFO 04-29 06:00:58
# glog and c10 write month * 100 + day, so January to September take three digits in c10:
# I1103 12:01:13.644929, E626 06:24:44.448988908, I20230429 06:00:58.120000
GLOG: Final = re.compile(r"[IWEFD](\d{4})?(\d{3,4}) " + _CLOCK)
SYSLOG: Final = re.compile(r"([A-Z][a-z]{2}) {1,2}(\d\d?) " + _CLOCK + r"(?: (\d{4})\b)?")
CTIME: Final = re.compile(  # Mon Mar  6 20:00:14 2023, Sat Apr 29 06:00:58 UTC 2023
    r"[A-Z][a-z]{2} ([A-Z][a-z]{2}) {1,2}(\d\d?) " + _CLOCK + r"(?: ([A-Z]{3,5}))? (\d{4})\b"
)
DATED: Final = re.compile(r"([A-Z][a-z]{2}) {1,2}(\d\d?) (\d{4}) " + _CLOCK)  # fabric manager
UPTIME: Final = re.compile(r"\[ {0,12}(\d{1,9})\.(\d{2,9})\]")  # [449001.120117], [  123.45][ T1]
KMSG: Final = re.compile(r"\d{1,4},\d{1,12},(\d{1,18}),[^;\n]{0,40};")  # 4,1234,5678901,-;
# dmesg --reltime: [Jan21 01:49] where the minute changes, [  +0.000012] since the line above
MINUTE: Final = re.compile(r"([A-Z][a-z]{2})([ \d]\d) (\d\d):(\d\d)\]")
SINCE: Final = re.compile(r"(?:<\d{1,3}>)?\[ {0,12}\+(\d{1,9})\.(\d{6})\]")
EPOCH: Final = re.compile(r"(\d{10})(?:\.(\d{1,9}))?(\d{3}|\d{6}|\d{9})?(?=[\s:\]|,;]|$)")
TIME_ONLY: Final = re.compile(_CLOCK + r"(?=[\s\]|,:]|$)")  # [15:57:44]
LIBFABRIC: Final = re.compile(
    r"libfabric:\d{1,9}:(\d{10}):"
)  # libfabric:451707:1708520807::efa:cq:
STOPPED_AT: Final = re.compile(r" AT (?=\d{4}-\d\d-\d\dT)")  # *** STEP ... CANCELLED AT 2025-...
KERNEL_UPTIME: Final = re.compile(r"kernel: \[ {0,12}(\d{1,9})\.(\d{3,9})\]")
# The row of the RPC that still waits in the driver's GSP history, ts_start without a ts_end:
# NVRM:      0    76   GSP_RM_CONTROL  0x... 0x... 0x000609ffebd7f5bd 0x0000000000000000   y
GSP_TIME: Final = re.compile(
    r"NVRM: {1,12}0 {1,12}\d{1,6} {1,8}\w{1,64} [^\n]{0,120}?"
    r"(0x000[5-9a-f][0-9a-f]{12}) 0x0{16}\b"
)


def micros(fraction: str | None) -> tuple[int, int]:
    """Microseconds of a fraction's digits, and how wide one unit of its last digit is less one."""
    if not fraction:
        return 0, _SECOND - 1
    digits = len(fraction)
    if digits >= 6:
        return int(fraction[:6]), 0
    unit = 10 ** (6 - digits)
    return int(fraction) * unit, unit - 1
