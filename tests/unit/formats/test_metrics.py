import json

from engine.rulebook.book import MetricDef
from tests.unit.reading import read

START = 1_770_631_200  # 2026-02-09T10:00:00Z


def rule(detector, metric="M", *, ratio=None, threshold=None, mask=None, values=(), fraction="0"):
    return MetricDef(
        "gpu/rule",
        "symptom_of_rule",
        (metric,),
        "M",
        detector,
        threshold,
        ratio,
        mask,
        values,
        fraction,
        {},
    )


def text(metric, *, values_of_gpu, host="node-008", step=60):
    lines = [f"# HELP {metric} words", f"# TYPE {metric} gauge"]
    for gpu, values in values_of_gpu.items():
        for at, value in enumerate(values):
            labels = (
                f'gpu="{gpu}",UUID="GPU-{gpu}",pci_bus_id="00000000:{gpu}0:00.0",Hostname="{host}"'
            )
            lines.append(f"{metric}{{{labels}}} {value} {(START + at * step) * 1000}")
    return "\n".join(lines) + "\n"


def seen(data, *rules, nodes=("node-008",), **more):
    structured = read(
        "metrics", data, nodes=nodes, metrics=rules, label={"nodes": ("node-008",)}, **more
    )
    assert structured is not None
    return structured.observations


def test_one_slow_gpu_stands_out_from_its_peers():
    data = text(
        "M", values_of_gpu={0: [1480, 1470], 1: [1475, 1490], 2: [740, 750], 3: [1490, 1480]}
    )
    (found,) = seen(data, rule("outlier_low", ratio="0.8", fraction="0.5"))
    assert found.symptom == "symptom_of_rule"
    assert (found.entity.node, found.entity.gpu_index, found.entity.gpu_pci) == (
        "node-008",
        2,
        "00000000:20:00.0",
    )
    assert found.fields["mean"] == "745"
    assert found.fields["peers_median"] == "1482.5"
    assert found.fields["agreeing"] == "2"


def test_two_gpus_alone_are_no_peers_to_each_other():
    data = text("M", values_of_gpu={0: [1480], 1: [700]})
    assert seen(data, rule("outlier_low", ratio="0.8")) == []


def test_a_counter_that_was_reset_counts_on_from_zero():
    data = text("M", values_of_gpu={0: [100, 103, 2, 4]})
    (found,) = seen(data, rule("increase", threshold="5"))
    assert (found.fields["increase"], found.fields["resets"]) == ("7", "1")
    assert seen(data, rule("increase", threshold="7")) == []


def test_a_counter_that_stands_still_is_silent_however_high():
    assert (
        seen(text("M", values_of_gpu={0: [512, 512, 512]}), rule("increase", threshold="0")) == []
    )


def test_a_bit_must_be_set_in_enough_of_the_samples():
    data = text("M", values_of_gpu={0: [0x44, 0x40, 0, 0]})
    assert len(seen(data, rule("bits", mask="0x40", fraction="0.5"))) == 1
    assert seen(data, rule("bits", mask="0x40", fraction="0.6")) == []
    assert seen(data, rule("bits", mask="0x8")) == []


def test_the_onset_lies_between_the_last_good_and_the_first_bad_sample():
    (found,) = seen(text("M", values_of_gpu={0: [60, 61, 97, 98]}), rule("above", threshold="95"))
    assert found.when.earliest_us == (START + 60) * 1_000_000
    assert found.when.latest_us == (START + 120) * 1_000_000
    assert found.count == 2


def test_an_xid_gauge_that_held_its_code_from_the_start_is_an_old_story():
    code = rule("value_in", metric="DCGM_FI_DEV_XID_ERRORS", values=("79",))
    old = text("DCGM_FI_DEV_XID_ERRORS", values_of_gpu={0: [79, 79, 79]})
    new = text("DCGM_FI_DEV_XID_ERRORS", values_of_gpu={0: [0, 79, 79]})
    assert seen(old, code) == []
    assert len(seen(new, code)) == 1


def test_samples_from_before_the_attempt_do_not_count():
    data = text("M", values_of_gpu={0: [99, 10, 10]}, step=600)
    assert seen(data, rule("above", threshold="95"), start="2026-02-09T10:05:00Z") == []
    assert len(seen(data, rule("above", threshold="95"), start="2026-02-09T10:00:00Z")) == 1


def test_a_host_that_the_job_did_not_run_on_is_dropped_also_as_a_peer():
    own = text("M", values_of_gpu={0: [1480], 1: [700]})
    other = text("M", values_of_gpu={2: [1480], 3: [1490]}, host="node-009")
    assert seen(own + other, rule("outlier_low", ratio="0.8")) == []


def test_an_exporters_pod_name_as_host_falls_back_to_the_label():
    (found,) = seen(
        text("M", values_of_gpu={0: [99]}, host="dcgm-exporter-x7k2p"),
        rule("above", threshold="95"),
    )
    assert found.entity.node == "node-008"


def test_a_range_answer_says_the_same_as_the_text():
    labels = {"__name__": "M", "gpu": "2", "Hostname": "node-008"}
    answer = {
        "status": "success",
        "data": {
            "resultType": "matrix",
            "result": [{"metric": labels, "values": [[START, "60"], [START + 60.5, "97"]]}],
        },
    }
    (found,) = seen(json.dumps(answer), rule("above", threshold="95"))
    assert found.entity.gpu_index == 2
    assert found.first.when.latest_us == START * 1_000_000 + 60_500_000
    assert found.first.text == 'M{Hostname="node-008",gpu="2"} 97'


def test_the_order_of_lines_changes_nothing_but_places():
    data = text("M", values_of_gpu={0: [60, 97, 98], 1: [50, 50, 50], 2: [51, 50, 52]})
    head, *lines = data.splitlines()
    back = "\n".join([head, *reversed(lines)]) + "\n"
    one, two = (seen(each, rule("outlier_high", ratio="1.2"))[0] for each in (data, back))
    assert (one.fields, one.when, one.entity, one.count) == (
        two.fields,
        two.when,
        two.entity,
        two.count,
    )


def test_not_a_number_and_broken_lines_are_left_out():
    data = 'M{gpu="0"} NaN 1770631200000\nM{gpu="0" 5\nnot a metric\nM{gpu="0"} 99 1770631200000\n'
    structured = read("metrics", data, metrics=(rule("above", threshold="95"),))
    assert len(structured.observations) == 1
    assert [line for _, _, line in structured.unconsumed] == [b'M{gpu="0" 5', b"not a metric"]


def test_a_summary_says_which_span_of_time_the_samples_cover():
    structured = read(
        "metrics",
        text("M", values_of_gpu={0: [1, 2, 3]}),
        nodes=("node-008",),
        label={"nodes": ("node-008",)},
    )
    (summary,) = structured.summaries
    assert (summary.node, summary.lines) == ("node-008", 3)
    assert summary.last.latest_us - summary.first.earliest_us == 120_000_000
