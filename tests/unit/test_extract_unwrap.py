from time import process_time

from engine.extract.unwrap import Unwrapper


def test_nul_bytes_and_colours_leave_a_line():
    data = b"\x1b[31mRuntime\0Error\x1b[0m: boom\n"
    text, _, _ = Unwrapper(data).derive(data, len(data), offset=0, first_line=1, last=True)
    assert text == b"RuntimeError: boom\n"


def test_a_hole_of_nul_bytes_costs_next_to_nothing():
    data = b"\0" * (32 << 20)
    unwrapper = Unwrapper(b"x\n")
    began = process_time()
    unwrapper.derive(data, len(data), offset=0, first_line=1, last=True)
    assert process_time() - began < 1.0
