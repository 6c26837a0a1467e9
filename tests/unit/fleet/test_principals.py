"""The name of a principal in a line is found as a whole."""

import json
import re

import pytest

from featuregate_fleet.evidence.principals import pattern_of

DN = "User:CN=Audit\\, Bill,OU=Ops"


def has(principal: str, line: str) -> bool:
    """Return whether a line has the name."""
    return re.search(pattern_of(principal), line) is not None


@pytest.mark.parametrize(
    "place",
    [
        '"principal":{json},"listener":"CLIENT"',
        '"request":{{"filter":"{{\\"principal\\":\\"{plain}\\"}}"}}',
        ",principal:{plain},listener:CLIENT,clientInformation:",
        "securityProtocol:PLAINTEXT,principal:{plain} (kafka.request.logger)",
        "listenerName: ListenerName(CLIENT), principal: {plain}",
        "Principal = {plain} is Denied Operation = Read",
        "(principal={plain}, host=*, operation=READ)",
        "{{principal={plain},host=*,permission_type=3}}",
        "[{plain}, User:audit]",
        "The broker does not know {plain}.",
        '"principal":{cut}',
        "principal:{plain}",
    ],
)
@pytest.mark.parametrize("principal", ["User:bill", "User:b.ill@REALM", "User:Jos\u00e9", DN])
def test_a_principal_is_found_in_every_place(place: str, principal: str):
    """As brokers log it, in JSON and in text, and where the line is cut behind it."""
    as_json = json.dumps(principal, ensure_ascii=False)
    assert has(principal, place.format(plain=principal, json=as_json, cut=as_json[:-1]))


@pytest.mark.parametrize(
    ("principal", "other"),
    [
        ("User:bill", "User:billing"),
        ("User:bill", "User:bill.smith"),
        ("User:bill", "User:bill@REALM"),
        ("User:bill", "User:bill-2"),
        ("User:bill", "SuperUser:bill"),
        ("User:Jos", "User:Jos\u00e9"),
        ("User:CN=Audit", DN),
        ("User:CN=Audit\\, Bill", DN),
    ],
)
@pytest.mark.parametrize("place", ['"principal":{json},"listener"', "principal:{plain},listener:", "at {plain}"])
def test_a_longer_name_is_another_principal(principal: str, other: str, place: str):
    """It stays, when the shorter one is forgotten."""
    line = place.format(plain=other, json=json.dumps(other, ensure_ascii=False))
    assert has(other, line)
    assert not has(principal, line)


def test_quotes_end_a_name_of_several_words():
    """In text nothing says where the name ends, and to forget too much is better than to forget too little."""
    assert not has("User:CN=Bill", '"principal":"User:CN=Bill Smith"')
    assert has("User:CN=Bill", "principal:User:CN=Bill Smith,listener:CLIENT")
