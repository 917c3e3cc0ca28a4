"""nvidia-smi in XML, topology, verbs, Ethernet, AER, bug reports and DCGM 4: facts, no accusers.

Shapes: NVIDIA's documentation of nvidia-smi and DCGM, libibverbs' devinfo.c, ethtool, pciutils'
ls-ecaps.c. Written by hand after them; none was captured on such hardware here.
"""

import json

from tests.unit.reading import facts, read

UUID = "GPU-11111111-2222-3333-4444-555555555555"


def node(text):
    return read("inventory", text, label={"nodes": ("node-001",), "trust": "node"})


XML = f"""\
<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
\t<timestamp>Thu Jan  1 06:00:00 2026</timestamp>
\t<attached_gpus>2</attached_gpus>
\t<gpu id="00000000:07:00.0">
\t\t<product_name>NVIDIA H100 80GB HBM3</product_name>
\t\t<serial>1650000000001</serial>
\t\t<uuid>{UUID}</uuid>
\t\t<gpu_reset_status>
\t\t\t<reset_required>Yes</reset_required>
\t\t\t<drain_and_reset_recommended>No</drain_and_reset_recommended>
\t\t</gpu_reset_status>
\t\t<gpu_recovery_action>Reset</gpu_recovery_action>
\t\t<remapped_rows>
\t\t\t<remapped_row_pending>No</remapped_row_pending>
\t\t\t<remapped_row_failure>Yes</remapped_row_failure>
\t\t</remapped_rows>
\t</gpu>
\t<gpu id="00000000:47:00.0">
\t\t<product_name>NVIDIA H100 80GB HBM3</product_name>
\t\t<gpu_reset_status>
\t\t\t<reset_required>No</reset_required>
\t\t</gpu_reset_status>
\t</gpu>
</nvidia_smi_log>
"""


def test_xml_says_what_the_text_form_says():
    head = (
        f'inventory.gpu node=node-001 pci=00000000:07:00.0 uuid={UUID} name="NVIDIA H100 80GB HBM3"'
    )
    other = 'inventory.gpu node=node-001 pci=00000000:47:00.0 name="NVIDIA H100 80GB HBM3"'
    assert facts(node(XML)) == [
        f"{head} state=listed",
        f'{head} state=unhealthy message="Reset Required: Yes"',
        f'{head} state=unhealthy message="GPU Recovery Action: Reset"',
        f'{head} state=unhealthy message="Remapping Failure Occurred: Yes"',
        f"{other} state=listed",
    ]  # fmt: skip


def test_xml_that_breaks_off_says_what_it_said():
    cut = XML[: XML.index("<gpu_recovery_action>")]
    assert len(facts(node(cut))) == 2


def test_no_entity_of_a_hostile_xml_is_resolved():
    bomb = '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]>\n<nvidia_smi_log>\n'
    text = bomb + '\t<gpu id="00000000:07:00.0">\n\t\t<uuid>&b;</uuid>\n\t</gpu>\n'
    assert facts(node(text)) == ["inventory.gpu node=node-001 pci=00000000:07:00.0 state=listed"]


TOPOLOGY = """\
\tGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tCPU Affinity\tNUMA Affinity
GPU0\t X \tNV18\tNV18\tSYS\tPIX\t0-55\t0
GPU1\tNV18\t X \tNV18\tSYS\tNODE\t0-55\t0
GPU2\tNV18\tNV18\t X \tSYS\tSYS\t56-111\t1
GPU3\tSYS\tSYS\tSYS\t X \tSYS\t56-111\t1
NIC0\tPIX\tNODE\tSYS\tSYS\t X
"""


def test_a_device_without_nvlink_stands_out_only_where_the_others_have_it():
    found = facts(node(TOPOLOGY))
    assert found[0] == (
        'inventory.link node=node-001 device=GPU0 state=topology message="NV18 x2, SYS x1"'
    )
    assert found[3] == 'inventory.link node=node-001 device=GPU3 state=no_nvlink message="SYS x3"'
    plain = TOPOLOGY.replace("NV18", "PHB")
    assert all("state=topology" in each for each in facts(node(plain)))


def test_ports_of_verbs_are_told_as_ibstat_tells_them():
    text = (
        "hca_id:\tmlx5_0\n\ttransport:\t\t\tInfiniBand (0)\n\tphys_port_cnt:\t\t\t1\n"
        "\t\tport:\t1\n\t\t\tstate:\t\t\tPORT_DOWN (1)\n\t\t\tlink_layer:\t\tInfiniBand\n"
        "hca_id:\tmlx5_1\n\t\tport:\t1\n\t\t\tstate:\t\t\tPORT_ACTIVE (4)\n"
    )
    assert facts(node(text)) == [
        "inventory.link node=node-001 device=mlx5_0 port=1 state=Down",
        "inventory.link node=node-001 device=mlx5_1 port=1 state=Active",
    ]


def test_an_interface_without_a_link_is_a_fact_and_no_accusation():
    text = (
        "Settings for eth0:\n\tSpeed: Unknown!\n\tDuplex: Unknown! (255)\n\tLink detected: no\n"
        "Settings for eth1:\n\tSpeed: 100000Mb/s\n\tDuplex: Full\n\tLink detected: yes\n"
    )
    assert facts(node(text)) == [
        "inventory.link node=node-001 device=eth0 state=no_link message=Unknown!",
        "inventory.link node=node-001 device=eth1 state=link message=100000Mb/s",
    ]


def test_registers_of_aer_are_read_but_for_what_healthy_machines_show():
    text = (
        "80:00.0 3D controller: NVIDIA Corporation GH100 (rev a1)\n"
        "\tCapabilities: [100 v2] Advanced Error Reporting\n"
        "\t\tUESta:\tDLP+ SDES- TLP- FCP- CmpltTO- CmpltAbrt- UnxCmplt- UnsupReq+ ACSViol-\n"
        "\t\tUEMsk:\tDLP- SDES- TLP- FCP- CmpltTO- CmpltAbrt- UnxCmplt- UnsupReq- ACSViol-\n"
        "\t\tCESta:\tRxErr- BadTLP- BadDLLP- Rollover- Timeout- AdvNonFatalErr+\n"
    )
    assert facts(node(text)) == [
        "inventory.link node=node-001 device=0000:80:00.0 state=aer_uncorrected "
        'message="DLP UnsupReq"'
    ]


def test_a_bug_report_says_which_device_is_which():
    text = (
        "Start of NVIDIA bug report log file.\n"
        "*** /proc/driver/nvidia/./gpus/0000:07:00.0/information\n"
        f"Model: \t\t NVIDIA H100\nIRQ:   \t\t 125\nGPU UUID: \t {UUID}\n"
        "Video BIOS: \t 96.00.30\nBus Location: \t 0000:07:00.0\nDevice Minor: \t 0\n"
    )
    assert facts(node(text)) == [
        f'inventory.gpu node=node-001 pci=0000:07:00.0 uuid={UUID} name="NVIDIA H100" state=listed'
    ]


def test_dcgm_4_names_entities_and_older_ones_lists_of_gpus():
    def diag(**result):
        tests = [{"name": "memory", "results": [{"status": "Fail", **result}]}]
        body = {"test_categories": [{"category": "Hardware", "tests": tests}]}
        return json.dumps({"DCGM Diagnostic": body})

    new = diag(entity_group="GPU", entity_id=3, warnings=[{"warning": "row remap", "error_id": 1}])
    assert facts(node(new)) == [
        'inventory.gpu node=node-001 index=3 state=diag_fail message="memory: row remap"'
    ]
    assert [each.split(" ")[2] for each in facts(node(diag(gpu_ids="0,5", info="x")))] == [
        "index=0",
        "index=5",
    ]
    assert "index" not in facts(node(diag(entity_group="CPU", entity_id=0, info="x")))[0]
