"""ApiVersions."""

import re
import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from featuregate.errors import LocalWireError, RemoteWireError
from featuregate.wire.api_versions import ApiVersionsRequest, ApiVersionsResponse, fit_software

KAFKAS_RULE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
API = struct.Struct(">hhh")


def v3(api_list: str, tags: str = "00") -> bytes:
    """Make the body of a v3 answer: error 0, the list, no throttling, tags."""
    return bytes.fromhex("0000" + api_list + "00000000" + tags)


@given(text=st.text())
@example(text="")
@example(text="---")
@example(text="a" * 200)
@example(text="a" * 127 + "-b")
@example(text="my app / 1.0+local\n")
def test_any_text_is_made_to_fit_kafkas_rule(text: str) -> None:
    """A broker accepts the fitted name of any app."""
    fitted = fit_software(text)
    assert KAFKAS_RULE.fullmatch(fitted)
    assert len(fitted) <= 128


@pytest.mark.parametrize(
    ("text", "fitted"),
    [("featuregate", "featuregate"), ("1.0+dev", "1.0-dev"), ("-x ", "x"), ("", "unknown"), ("é", "unknown")],
)
def test_text_that_does_not_fit_stays_recognisable(text: str, fitted: str) -> None:
    """Only characters that Kafka does not allow are replaced."""
    assert fit_software(text) == fitted


@pytest.mark.parametrize("bad", ["", "a b", "-x", "x-", "a\n", "é"])
@pytest.mark.parametrize("version", [3, 4, 5])
def test_software_that_brokers_refuse_is_not_sent(bad: str, version: int) -> None:
    """Brokers answer INVALID_REQUEST to such names, so encoding raises an error."""
    for names in ((bad, "1"), ("app", bad)):
        request = ApiVersionsRequest(client_software_name=names[0], client_software_version=names[1])
        with pytest.raises(LocalWireError, match="brokers refuse it"):
            request.encode(version)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_old_versions_of_the_request_are_empty(version: int) -> None:
    """Versions without these fields leave out software names and ids."""
    request = ApiVersionsRequest(client_software_name="app", client_software_version="1", cluster_id="c", node_id=1)
    assert request.encode(version) == b""


@pytest.mark.parametrize(("cluster_id", "node_id"), [("c", -1), (None, 1)])
def test_one_id_of_two_is_refused_over_v5(cluster_id: str | None, node_id: int) -> None:
    """Brokers answer error 42 to one id without the other."""
    request = ApiVersionsRequest(
        client_software_name="app", client_software_version="1", cluster_id=cluster_id, node_id=node_id
    )
    with pytest.raises(LocalWireError, match="give both a cluster id and a node id, or neither"):
        request.encode(5)
    assert request.encode(4) == ApiVersionsRequest(client_software_name="app", client_software_version="1").encode(4)


def test_a_server_can_read_one_id_of_two() -> None:
    """A fake broker can decode such a request, and refuse it."""
    body = bytes.fromhex("02 61 02 31 02 63 ffffffff 00")
    assert ApiVersionsRequest.decode(5, body).cluster_id == "c"


def test_v5_has_both_ids_behind_the_software() -> None:
    """The bytes are written out here, because kio has no v5."""
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1", cluster_id="c", node_id=3)
    assert request.encode(5) == bytes.fromhex("02 61 02 31 02 63 00000003 00")


def test_finalized_levels_come_lowest_first() -> None:
    """The response has the highest level first; the decoded pair has the lowest first."""
    body = v3("01", "01 02 08 02 02 61 0005 0003 00")
    assert ApiVersionsResponse.decode(3, body).finalized == {"a": (3, 5)}


def test_an_unknown_epoch_is_not_written() -> None:
    """Kafka leaves out the tag of an unknown epoch, too."""
    response = ApiVersionsResponse(error_code=0, api_ranges={})
    assert response.encode(3) == v3("01")
    assert ApiVersionsResponse.decode(3, v3("01")).epoch == -1


def test_unknown_tags_are_kept_aside() -> None:
    """The message keeps tagged fields of newer brokers, and encodes them again."""
    body = v3("01", "02 01 08 0000000000000007 0900")
    response = ApiVersionsResponse.decode(3, body)
    assert (response.epoch, response.unknown_tags) == (7, {9: b""})
    assert response.encode(3) == body


def test_tags_of_elements_are_stepped_over() -> None:
    """The decoder reads the list of APIs element by element if one has tagged fields."""
    body = v3("03 0001 0000 0004 01 05 02 aabb 0002 0001 0003 00")
    assert ApiVersionsResponse.decode(3, body).api_ranges == {1: (0, 4), 2: (1, 3)}


def test_tags_of_features_are_stepped_over() -> None:
    """The decoder skips tagged fields in the list of features."""
    body = v3("01", "01 00 12 03 02 61 0000 0001 01 05 01 aa 02 62 0001 0002 00")
    assert ApiVersionsResponse.decode(3, body).supported == {"a": (0, 1), "b": (1, 2)}


def test_a_feature_name_may_be_long() -> None:
    """The length of a feature name may take two bytes."""
    response = ApiVersionsResponse(
        error_code=0, api_ranges={}, supported={"a" * 126: (0, 1), "b" * 300: (0, 2), "": (1, 1)}
    )
    assert ApiVersionsResponse.decode(4, response.encode(4)) == response


@pytest.mark.parametrize("ranges", [{1: (5, 2)}, {1: (-3, -1)}, {-7: (0, 0)}])
def test_a_range_that_no_version_satisfies_is_kept_as_said(ranges: dict[int, tuple[int, int]]) -> None:
    """The message keeps such a range. It offers no version, so no gate opens because of it."""
    body = ApiVersionsResponse(error_code=0, api_ranges=ranges).encode(0)
    assert ApiVersionsResponse.decode(0, body).api_ranges == ranges


@pytest.mark.parametrize(
    ("version", "body"),
    [
        (0, bytes.fromhex("0000 00000002") + API.pack(1, 0, 1) * 2),
        (3, v3("03" + (API.pack(1, 0, 1).hex() + "00") * 2)),
        (3, v3("03" + (API.pack(1, 0, 1).hex() + "010100") * 2)),
    ],
)
def test_an_api_that_is_listed_twice_is_refused(version: int, body: bytes) -> None:
    """Two ranges for one API contradict each other."""
    with pytest.raises(RemoteWireError, match="api_ranges at byte 2: an API is listed twice"):
        ApiVersionsResponse.decode(version, body)


@pytest.mark.parametrize("tag", [0, 2])
def test_a_feature_that_is_listed_twice_is_refused(tag: int) -> None:
    """The decoder refuses such a feature among supported and among finalized ones."""
    with pytest.raises(RemoteWireError, match="a feature is listed twice"):
        ApiVersionsResponse.decode(3, v3("01", f"01 0{tag} 0f 03" + "02 61 0000 0001 00" * 2))


@pytest.mark.parametrize(
    ("tags", "problem"),
    [
        ("01 00 08 02 02 ff 0000 0001 00", "not UTF-8"),
        ("01 00 08 02 00 61 0000 0001 00", "null"),
        ("01 00 08 0f 02 61 0000 0001 00", "14 elements cannot fit into 7 bytes"),
        ("01 00 08 02 7f 61 0000 0001 00", "wanted 126 bytes"),
        ("01 00 08 02 02 61 0000 0001 01", "wanted 1 byte, 0 left"),
        ("01 00 09 02 02 61 0000 0001 00 00", "1 byte left over"),
        ("01 00 0d 03 02 61 0000 0001 00 02 62 0000 00", "wanted 2 bytes, 1 left"),
        ("01 00 09 03 02 61 0000 0001 00 02", "2 elements cannot fit"),
        ("02 00 07 02 05 61 0000 0001 01 08 0000000000000007", "wanted 2 bytes, 1 left"),
        ("01 01 07 00000000000007", "wanted 8 bytes, 7 left"),
        ("01 01 09 000000000000000700", "1 byte left over"),
        ("01 03 00", "wanted 1 byte, 0 left"),
        ("01 03 02 0101", "1 byte left over"),
        ("02 01 08 0000000000000007 01 08 0000000000000007", "tag 1 after tag 1"),
    ],
)
def test_a_tagged_field_that_does_not_parse_is_refused(tags: str, problem: str) -> None:
    """A tagged field must use all bytes of its tag, and no others."""
    with pytest.raises(RemoteWireError, match=problem):
        ApiVersionsResponse.decode(4, v3("01", tags))


@given(after=st.binary(max_size=40))
@example(after=bytes.fromhex("01 0012 0000 0002 00 00000000"))
def test_invariant_6_error_35_is_known_whatever_follows_it(after: bytes) -> None:
    """A body that does not parse as v0 lists no version."""
    response, version = ApiVersionsResponse.decode_answer(5, b"\0\x23" + after)
    assert (response.error_code, version) == (35, 0)
    try:
        readable = ApiVersionsResponse.decode(0, b"\0\x23" + after)
    except RemoteWireError:
        assert response.api_ranges == {}
    else:
        assert response == readable


@pytest.mark.parametrize("code", [0, 42, 129])
def test_other_answers_are_read_as_asked(code: int) -> None:
    """Responses with errors 42 and 129 have the version of the request, and an empty list."""
    body = ApiVersionsResponse(error_code=code, api_ranges={}).encode(5)
    response, version = ApiVersionsResponse.decode_answer(5, body)
    assert (response.error_code, version) == (code, 5)
