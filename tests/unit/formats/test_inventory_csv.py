"""Device listings in CSV form: what singles a device out, and what does not."""

from tests.unit.reading import facts, read

HEAD = (
    "index, pci.bus_id, pcie.link.width.current, pcie.link.width.max, clocks_event_reasons.active"
)


def node(*rows):
    text = "\n".join((HEAD, *rows)) + "\n"
    return facts(read("inventory", text, label={"nodes": ("node-001",), "trust": "node"}))


def test_one_narrow_link_among_full_ones_is_singled_out():
    found = node(
        "0, 00000000:01:00.0, 16, 16, 0x0000000000000000",
        "1, 00000000:41:00.0, 4, 16, 0x0000000000000000",
        "2, 00000000:81:00.0, 16, 16, 0x0000000000000000",
    )
    assert found[1] == (
        "inventory.gpu node=node-001 index=1 pci=00000000:41:00.0 state=narrow_link"
        ' message="PCIe width x4 of x16"'
    )
    assert [line.rsplit(" ", 1)[1] for line in (found[0], found[2])] == ["state=listed"] * 2


def test_slots_that_are_all_narrow_single_nobody_out():
    rows = [f"{at}, 00000000:0{at + 1}:00.0, 8, 16, 0x0000000000000000" for at in range(4)]
    assert not any("narrow" in line for line in node(*rows))


def test_reasons_of_heat_are_told_and_a_power_cap_is_not():
    (hot,) = node("0, 00000000:01:00.0, 16, 16, 0x0000000000000020")
    assert hot.endswith('state=slowed message="SW Thermal Slowdown"')
    (capped,) = node("0, 00000000:01:00.0, 16, 16, 0x0000000000000004")
    assert capped.endswith("state=listed")


def test_a_device_that_wants_a_reset_says_so_in_any_column():
    (found,) = node("0, 00000000:01:00.0, [GPU requires reset], 16, 0x0")
    assert found.endswith('state=unhealthy message="GPU requires reset"')


def test_rows_of_another_shape_end_the_listing():
    assert node("no listing any more", "1, 00000000:41:00.0, 4, 16, 0x0") == []
