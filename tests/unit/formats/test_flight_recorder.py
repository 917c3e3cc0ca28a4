import json
import pickle

from tests.unit.reading import facts, read

DUMP = {
    "version": "2.9",
    "pg_config": {
        "0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"},
        "7": {"name": "7", "desc": "TENSOR", "ranks": "[2, 3]"},
    },
    "pg_status": {
        "0": {
            "last_enqueued_collective": 9,
            "last_started_collective": -1,
            "last_completed_collective": 9,
        },
        "1": {
            "last_enqueued_collective": 42,
            "last_started_collective": -1,
            "last_completed_collective": 40,
        },
    },
    "entries": [
        {
            "pg_id": 1,
            "process_group": ("7", "TENSOR"),
            "collective_seq_id": seq,
            "profiling_name": "nccl:all_to_all",
            "state": state,
            "input_sizes": ((4, 5),),
            "time_created_ns": 1758610505880883597,
            "timeout_ms": 600000,
            "is_p2p": False,
        }
        for seq, state in ((42, "scheduled"), (41, "scheduled"), (40, "completed"))
    ],
}

WANTED = [
    "fr.rank rank=3 pg=0 pg_desc=default_pg members=0-3 last_enqueued=9 last_started=-1 "
    "last_completed=9 entries=0",
    "fr.rank rank=3 pg=7 pg_desc=TENSOR members=2-3 last_enqueued=42 last_started=-1 "
    "last_completed=40 entries=3",
    "fr.blocked rank=3 pg=7 pg_desc=TENSOR members=2-3 seq=41 op=nccl:all_to_all "
    "state=scheduled sizes=4x5 timeout_ms=600000",
]


def dump(data, *, uri="dumps/_dump_3", ranks=()):
    return read("flight_recorder", data, label={"uri": uri, "ranks": ranks, "trust": "workload"})


def test_a_pickled_dump_gives_counters_and_the_first_blocked_operation_of_each_group():
    structured = dump(pickle.dumps(DUMP, protocol=2))
    assert facts(structured) == WANTED
    assert {fact.entity.rank for fact in structured.facts} == {3}


def test_every_pickle_protocol_and_json_say_the_same():
    for protocol in (2, 3, 4, 5):
        assert facts(dump(pickle.dumps(DUMP, protocol=protocol))) == WANTED
    assert facts(dump(json.dumps(DUMP).encode())) == WANTED


def test_the_label_knows_the_rank_better_than_the_files_name():
    assert "rank=5 " in facts(dump(pickle.dumps(DUMP), ranks=(5,)))[0]


def test_a_dump_without_entries_still_says_that_the_rank_dumped():
    assert facts(dump(pickle.dumps({"pg_config": {}, "entries": []}))) == [
        "fr.rank rank=3 entries=0"
    ]


class Evil:
    def __reduce__(self):
        import os

        return (os.system, ("touch /tmp/owned-by-a-dump",))


def test_a_pickle_with_a_global_is_refused_and_runs_nothing(tmp_path):
    data = pickle.dumps({"pg_config": {}, "entries": [Evil()]})
    structured = dump(data)
    assert structured is None or structured.facts == []
    import os

    assert not os.path.exists("/tmp/owned-by-a-dump")


def test_shared_tuples_as_a_key_are_refused_at_once():
    nest = b")\x94" + b"".join(b"h%c" % at + b"h%c" % at + b"\x86\x94" for at in range(60))
    key = b"\x80\x04}" + nest + b"K\x01s."
    assert dump(key) is None


def test_cut_and_broken_pickles_are_no_dump():
    whole = pickle.dumps(DUMP)
    for cut in (1, 2, 10, len(whole) // 2, len(whole) - 1):
        found = dump(whole[:cut])
        assert found is None or found.facts == []
