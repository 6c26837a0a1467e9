"""``matrix``: what it prints of hand-made views, compared whole with ``matrix.txt``."""

from dataclasses import replace

import pytest
from builders import broker, deaf, view
from transcripts import sections

from featuregate.cli.commands.matrix import to_json, to_text
from featuregate.view.answers import ApiRange, SupportedRange
from featuregate.view.matrix import compare

ABLE = replace(broker(1, txn=3, group_version=1), supported={"group.version": SupportedRange(0, 1)})
SCENES = {
    "only APIs that differ are shown": view(
        *(replace(broker(n), api_ranges={1: ApiRange(0, 10 + n), 28: ApiRange(0, 3)}) for n in (1, 2))
    ),
    "features are shown even where all agree": view(broker(1, group_version=1), broker(2, group_version=1)),
    "brokers with the same values share a column": view(broker(1, txn=3), broker(2, txn=3), broker(3, txn=2)),
    "a column of too many brokers to name has a letter": view(*(broker(n, txn=2 + n % 2) for n in range(1, 41))),
    "a stale broker has a column of its own": view(broker(1, epoch=20, group_version=1), broker(2, epoch=10)),
    "a broker is silent": view(ABLE, replace(broker(2, txn=None, group_version=1), supported={}), deaf(3)),
    "without epochs": view(broker(epoch=-1)),
    "a name that would steer a terminal": view(replace(broker(), supported={"\x1b[31mred": SupportedRange(0, 1)})),
}
PRINTED = sections(__file__, "matrix.txt")


@pytest.mark.parametrize("scene", SCENES)
def test_the_matrix_of_a_cluster_is_printed_whole(scene: str) -> None:
    assert "\n".join(to_text(SCENES[scene], compare(SCENES[scene], all_apis=False))) == PRINTED[scene]


def test_all_shows_every_api() -> None:
    assert [line.name for line in compare(view(broker(1), broker(2)), all_apis=True).rows] == ["TxnOffsetCommit"]


def test_json_has_numbers_and_failures() -> None:
    shown = view(broker(1, txn=3), broker(2, txn=2), deaf(3))
    found = to_json(shown, compare(shown, all_apis=False))
    values = {"cluster": [0, 2], "differs": True, "brokers": {"1": [0, 3], "2": [0, 2]}}
    assert found["rows"] == [{"kind": "api", "name": "TxnOffsetCommit", **values}]
    assert found["brokers"][2]["failure"] == {"kind": "TimedOut", "text": "said nothing for 5 s"}
