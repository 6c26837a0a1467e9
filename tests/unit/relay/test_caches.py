"""What caches between a client and a relay may keep, and where a relay sends a client."""

import pytest
import requests
from relay_on_socket import serving

from featuregate.testing import StaticFeatures, release_view
from featuregate_relay.access.authentication import Access, ApiKeys

BOUND = 30.0
BASE = "/v1/clusters/default"
PATHS = ["/", "/v1/clusters", f"{BASE}/view", f"{BASE}/check?require=kip848", "/readyz", "/healthz", "/metrics", "/no"]


@pytest.mark.parametrize("path", [*PATHS, f"{BASE}/check?require=no!", "/assets/none"])
@pytest.mark.parametrize("access", [None, Access(api_keys=ApiKeys({}))])
def test_each_response_says_what_a_cache_may_keep(path: str, access: Access | None) -> None:
    """Responses differ by client and from one moment to the next; so do refusals."""
    with serving({"default": StaticFeatures(release_view("4.2"))}, access=access) as url:
        response = requests.get(url + path, timeout=BOUND)
    assert response.headers["Cache-Control"] in {"no-store", "no-cache"}


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_flags_say_what_a_cache_may_keep(method: str) -> None:
    with serving({"default": StaticFeatures(release_view("4.2"))}) as url:
        for path in ("/ofrep/v1/evaluate/flags", "/ofrep/v1/evaluate/flags/level.group.version"):
            response = requests.request(method, url + path, json={}, timeout=BOUND)
            assert response.headers["Cache-Control"] in {"no-store", "no-cache"}


@pytest.mark.parametrize("path", ["/healthz/", "/v1/clusters/", f"{BASE}/view/", "/clusters/default/", "/metrics/"])
def test_no_path_leads_to_the_host_that_a_request_names(path: str) -> None:
    """A cache would keep such a redirect for others."""
    with serving({"default": StaticFeatures(release_view("4.2"))}) as url:
        response = requests.get(url + path, headers={"Host": "other.example"}, allow_redirects=False, timeout=BOUND)
    assert (response.status_code, "Location" in response.headers) == (404, False)
