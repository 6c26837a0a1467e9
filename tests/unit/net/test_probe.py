"""A whole cluster: who belongs to it, and what each says."""

import asyncio
import gc
import itertools
from pathlib import Path

import pytest

import featuregate.net
from featuregate.config import Address
from featuregate.errors import (
    AuthenticationFailed,
    BrokerError,
    ConfigError,
    ConnectFailed,
    DiscoveryError,
    RemoteWireError,
    TimedOut,
    UnsupportedVersion,
)
from featuregate.net.probe import BrokerList, probe_all
from featuregate.wire.api_versions import ApiVersionsRequest, ApiVersionsResponse
from featuregate.wire.cluster import (
    CONTROLLERS,
    DescribeClusterRequest,
    DescribeClusterResponse,
    MetadataRequest,
    MetadataResponse,
    Node,
)
from featuregate.wire.sasl import SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest

NET = str(Path(featuregate.net.__file__).parent)
CONTROLLER_APIS = {1: (4, 17), 18: (0, 4), 52: (0, 2), 60: (0, 2), 62: (0, 4)}


class FakeNodes:
    """Nodes that know of each other."""

    def __init__(self, serve, fake_node):
        self._serve, self._fake_node = serve, fake_node
        self.nodes, self.listing = {}, []
        self.cluster_id = "cluster-1"

    async def add(self, node_id, api_ranges=None, *, talk=None):
        """Start one more; a `talk` may stand in for it."""
        fake = self._fake_node(api_ranges)
        fake.says[DescribeClusterRequest] = self._describe
        fake.says[MetadataRequest] = lambda *_: MetadataResponse(
            brokers=tuple(self.listing), cluster_id=self.cluster_id, controller_id=1
        )
        address = await self._serve(talk or fake)
        self.nodes[node_id] = fake
        self.list(node_id, address)
        return address

    def list(self, node_id, address, **more):
        """Let all nodes say that this one lives there."""
        self.listing.append(Node(node_id=node_id, host=address.host, port=address.port, **more))

    def _describe(self, request, version):
        listing = [
            node for node in self.listing if (version >= 2 and request.include_fenced_brokers) or not node.is_fenced
        ]
        return DescribeClusterResponse(
            cluster_id=self.cluster_id, controller_id=1, brokers=tuple(listing), endpoint_type=request.endpoint_type
        )


@pytest.fixture
def cluster(serve, fake_node):
    """A cluster without nodes yet."""
    return FakeNodes(serve, fake_node)


def asked(node, request_class):
    """The requests of one kind that a node got."""
    return [request for request, _ in node.asked if isinstance(request, request_class)]


def answered(result):
    """Who answered."""
    return [heard.node_id for heard in result.heard if heard.response is not None]


async def test_every_node_of_the_cluster_is_asked(cluster, settings_for):
    """From one of them in the bootstrap list."""
    addresses = [await cluster.add(node_id) for node_id in (1, 2, 3)]
    result = await probe_all(settings_for(addresses[1]), None)
    assert answered(result) == [1, 2, 3]
    assert [heard.address for heard in result.heard] == addresses
    assert result.broker_list == BrokerList(
        cluster_id="cluster-1", controller_id=1, nodes=tuple(cluster.listing), source="cluster", registered=True
    )


async def test_the_answer_of_the_node_that_was_asked_first_counts(cluster, settings_for):
    """It is not asked twice: one connection a node and poll."""
    address = await cluster.add(1)
    await probe_all(settings_for(address), None)
    assert len(asked(cluster.nodes[1], ApiVersionsRequest)) == 1


async def test_an_answer_through_another_address_counts_for_nobody(cluster, settings_for):
    """Behind a load balancer it may have been anybody's, so all are asked."""
    address = await cluster.add(1)
    result = await probe_all(settings_for(Address("localhost", address.port)), None)
    assert answered(result) == [1]
    assert len(asked(cluster.nodes[1], ApiVersionsRequest)) == 2


async def test_an_answer_tells_how_long_it_took_and_in_which_version(cluster, settings_for):
    """For the view and for the doctor."""
    (heard,) = (await probe_all(settings_for(await cluster.add(1)), None)).heard
    assert (heard.version, heard.failure, heard.role) == (4, None, "broker")
    assert 0 < heard.seconds < 60


async def test_brokers_without_describe_cluster_are_found_by_metadata(cluster, settings_for):
    """Before 2.8; those that are down are not listed, and the broker list says so."""
    address = await cluster.add(1, {3: (0, 8), 18: (0, 2)})
    result = await probe_all(settings_for(address), None)
    assert answered(result) == [1]
    assert not result.broker_list.registered


async def test_brokers_of_0_10_have_no_cluster_id(cluster, settings_for):
    """Metadata v1 has none."""
    address = await cluster.add(1, {3: (0, 1), 18: (0, 0)})
    assert (await probe_all(settings_for(address), None)).broker_list.cluster_id is None


async def test_a_fenced_broker_is_known_and_asked(cluster, settings_for, closed_port):
    """It is registered, and may come back with the old software."""
    address = await cluster.add(1)
    cluster.list(2, closed_port, is_fenced=True)
    result = await probe_all(settings_for(address), None)
    assert result.broker_list.nodes[1].is_fenced
    assert isinstance(result.heard[1].failure, ConnectFailed)


async def test_describe_cluster_before_v2_is_not_asked_for_fenced_brokers(cluster, settings_for):
    """It could not say it."""
    address = await cluster.add(1, {3: (0, 12), 18: (0, 3), 60: (0, 1)})
    assert not (await probe_all(settings_for(address), None)).broker_list.registered


async def test_silent_nodes_are_failures_beside_the_others_answers(cluster, settings_for):
    """They are waited for at the same time, so that any number of them costs one timeout."""
    address = await cluster.add(1)
    both = asyncio.Barrier(2)
    met = []

    async def silent(reader, writer):
        met.append(await both.wait())
        await reader.read()

    for node_id in (2, 3):
        await cluster.add(node_id, talk=silent)
    result = await probe_all(settings_for(address, request_timeout=0.5), None)
    assert [type(heard.failure) for heard in result.heard] == [type(None), TimedOut, TimedOut]
    assert sorted(met) == [0, 1]


async def test_each_failure_has_its_own_cause(cluster, settings_for, closed_port):
    """A host that does not resolve, a port that is closed, a peer that talks nonsense."""
    address = await cluster.add(1)

    async def nonsense(reader, writer):
        await reader.read(1)
        writer.write(b"HTTP/1.1 400\r\n")

    await cluster.add(2, talk=nonsense)
    cluster.list(3, closed_port)
    cluster.list(4, Address("nowhere.invalid", 9092))
    cluster.list(5, Address("", 0))
    result = await probe_all(settings_for(address), None)
    assert answered(result) == [1]
    assert [type(heard.failure) for heard in result.heard[1:]] == [RemoteWireError, *[ConnectFailed] * 3]
    assert "resolving the name" in str(result.heard[3].failure)


async def test_the_nodes_are_told_whom_we_expect(cluster, settings_for):
    """Cluster and node id, as soon as they are known; the first one to be asked could not be told."""
    v5 = {3: (0, 13), 18: (0, 5), 60: (0, 2)}
    addresses = [await cluster.add(node_id, v5) for node_id in (1, 2)]
    settings = settings_for(addresses[0])
    first = await probe_all(settings, None)
    (hello,) = asked(cluster.nodes[2], ApiVersionsRequest)
    assert (hello.cluster_id, hello.node_id) == ("cluster-1", 2)
    await probe_all(settings, first.broker_list)
    assert [request.node_id for request in asked(cluster.nodes[1], ApiVersionsRequest)] == [-1, 1]


async def test_a_node_that_is_somebody_else_has_failed(cluster, settings_for):
    """Error 129 to the ids that we expect."""
    address = await cluster.add(1)
    await cluster.add(2)
    cluster.nodes[2].says[ApiVersionsRequest] = lambda *_: ApiVersionsResponse(error_code=129, api_ranges={})
    failure = (await probe_all(settings_for(address), None)).heard[1].failure
    assert isinstance(failure, BrokerError)
    assert failure.code == 129


async def test_known_nodes_are_asked_before_the_bootstrap_list(cluster, settings_for, closed_port):
    """Which may be gone by now."""
    address = await cluster.add(1)
    broker_list = (await probe_all(settings_for(address), None)).broker_list
    assert answered(await probe_all(settings_for(closed_port), broker_list)) == [1]


async def test_when_all_known_nodes_are_gone_the_bootstrap_list_counts(cluster, settings_for, closed_port):
    """The cluster moved."""
    address = await cluster.add(1)
    gone = tuple(Node(node_id=node_id, host=closed_port.host, port=closed_port.port) for node_id in range(10, 20))
    known = BrokerList(cluster_id="cluster-1", controller_id=None, nodes=gone, source="cluster", registered=False)
    assert answered(await probe_all(settings_for(address), known)) == [1]


async def test_a_cluster_that_was_rebuilt_at_the_same_address_is_found(cluster, settings_for):
    """The known identity is refused there, so the bootstrap list is asked without one."""
    address = await cluster.add(1, {3: (0, 13), 18: (0, 5), 60: (0, 2)})

    def check(request, _):
        wrong = request.cluster_id not in {None, cluster.cluster_id}
        return ApiVersionsResponse(error_code=129 if wrong else 0, api_ranges={3: (0, 13), 18: (0, 5), 60: (0, 2)})

    cluster.nodes[1].says[ApiVersionsRequest] = check
    known = (await probe_all(settings_for(address), None)).broker_list
    cluster.cluster_id = "cluster-2"
    assert (await probe_all(settings_for(address), known)).broker_list.cluster_id == "cluster-2"


async def test_new_nodes_are_picked_up_and_removed_ones_dropped(cluster, settings_for):
    """At every probe."""
    address = await cluster.add(1)
    await cluster.add(2)
    known = (await probe_all(settings_for(address), None)).broker_list
    await cluster.add(3)
    cluster.listing = [node for node in cluster.listing if node.node_id != 2]
    assert answered(await probe_all(settings_for(address), known)) == [1, 3]


async def test_a_node_that_moved_is_asked_where_it_lives_now(cluster, settings_for, closed_port):
    """The broker list is new at every probe."""
    address = await cluster.add(1)
    cluster.list(2, closed_port)
    known = (await probe_all(settings_for(address), None)).broker_list
    cluster.listing.pop()
    moved = await cluster.add(2)
    assert (await probe_all(settings_for(address), known)).heard[1].address == moved


async def test_a_silent_bootstrap_node_does_not_hold_up_the_others(cluster, serve, settings_for, silent):
    """The next is asked half a second later, long before the first has timed out."""
    stuck = await serve(silent)
    address = await cluster.add(1)
    assert answered(await probe_all(settings_for(stuck, address), None)) == [1]


async def test_when_nobody_answers_every_cause_is_told(serve, settings_for, silent, closed_port):
    """One error, with the reason of each."""
    stuck = await serve(silent)
    with pytest.raises(DiscoveryError) as caught:
        await probe_all(settings_for(stuck, closed_port, request_timeout=0.1), None)
    causes = dict(caught.value.causes)
    assert isinstance(causes[str(stuck)], TimedOut)
    assert isinstance(causes[str(closed_port)], ConnectFailed)


async def test_invariant_7_the_total_bounds_finding(serve, settings_for, silent):
    """Even where each wait would be allowed to be longer."""
    stuck = await serve(silent)
    with pytest.raises(DiscoveryError, match=r"0\.2 s for all of it ran out"):
        await probe_all(settings_for(stuck, total_timeout=0.2), None)


async def test_invariant_7_the_total_bounds_asking(cluster, settings_for, silent):
    """Who has not answered by then has failed; who has, counts."""
    address = await cluster.add(1)
    for node_id in (2, 3):
        await cluster.add(node_id, talk=silent)
    result = await probe_all(settings_for(address, total_timeout=0.5, concurrency=1), None)
    assert answered(result) == [1]
    assert all(isinstance(heard.failure, TimedOut) for heard in result.heard[1:])
    assert "0.5 s for all brokers ran out" in str(result.heard[2].failure)


async def test_no_more_nodes_are_asked_at_the_same_time_than_allowed(cluster, settings_for, serve):
    """A thousand brokers are not a thousand sockets."""
    address = await cluster.add(1)
    now = most = 0

    def counting(node_id):
        async def talk(reader, writer):
            nonlocal now, most
            now += 1
            most = max(most, now)
            try:
                await cluster.nodes[node_id](reader, writer)
            finally:
                now -= 1

        return talk

    for node_id in range(2, 12):
        await cluster.add(node_id, talk=counting(node_id))
    result = await probe_all(settings_for(address, concurrency=2), None)
    assert len(answered(result)) == 11
    assert most <= 3  # the listener may notice the end of one after the beginning of the next


async def test_a_broker_that_knows_no_brokers_is_starting(cluster, settings_for):
    """Not a cluster without brokers."""
    address = await cluster.add(1)
    cluster.listing.clear()
    with pytest.raises(DiscoveryError, match="it knows of no brokers yet, so it is probably starting"):
        await probe_all(settings_for(address), None)


async def test_a_cluster_that_cannot_be_is_refused(cluster, settings_for):
    """Invariant 7: a lie about the number of brokers costs nothing."""
    address = await cluster.add(1)
    cluster.listing = [Node(node_id=node_id, host="h", port=1) for node_id in range(10_001)]
    with pytest.raises(DiscoveryError, match="10001 nodes are more than any cluster has"):
        await probe_all(settings_for(address), None)


async def test_a_node_id_that_is_listed_twice_is_asked_once(cluster, settings_for):
    """Answers are kept by node id."""
    address = await cluster.add(1)
    cluster.list(1, address)
    assert answered(await probe_all(settings_for(address), None)) == [1]


async def test_an_answer_counts_for_one_node_at_the_most(cluster, settings_for):
    """Two nodes that advertise one address cannot be told apart by it, so each is asked."""
    address = await cluster.add(1)
    cluster.list(2, address)
    await probe_all(settings_for(address), None)
    assert len(asked(cluster.nodes[1], ApiVersionsRequest)) == 3


async def test_certificates_that_cannot_be_used_are_nobodys_fault_but_the_settings(settings_for, closed_port, tmp_path):
    """One error that names the property, before anybody is asked."""
    (tmp_path / "ca.pem").write_text("nonsense")
    config = {"security.protocol": "SSL", "ssl.ca.location": str(tmp_path / "ca.pem")}
    with pytest.raises(ConfigError, match=r"ssl\.ca\.location"):
        await probe_all(settings_for(closed_port, config=config), None)


async def test_advertised_addresses_that_lead_nowhere_are_told(cluster, settings_for, closed_port):
    """The bootstrap address answered, but no broker does where the cluster says that it lives."""
    address = await cluster.add(1)
    cluster.listing.clear()
    cluster.list(1, closed_port)
    with pytest.raises(DiscoveryError, match="Connection refused"):
        await probe_all(settings_for(address), None)


async def test_a_controller_in_bootstrap_servers_is_told(cluster, settings_for):
    """By the APIs that it lists."""
    address = await cluster.add(3000, CONTROLLER_APIS)
    with pytest.raises(DiscoveryError) as caught:
        await probe_all(settings_for(address), None)
    ((_, cause),) = caught.value.causes
    assert isinstance(cause, ConfigError)
    assert (
        str(cause)
        == f"bootstrap.servers: {address} is a controller: use bootstrap.controllers, or --bootstrap-controller"
    )


async def test_a_broker_in_bootstrap_controllers_is_told(cluster, settings_for):
    """The reverse."""
    address = await cluster.add(1)
    settings = settings_for(config={"bootstrap.servers": None, "bootstrap.controllers": str(address)})
    with pytest.raises(DiscoveryError, match=r"is a broker: use bootstrap\.servers"):
        await probe_all(settings, None)


async def test_controllers_are_found_by_describe_cluster(cluster, settings_for):
    """With endpoint type 2 (KIP-919)."""
    address = await cluster.add(3000, CONTROLLER_APIS)
    await cluster.add(3001, CONTROLLER_APIS)
    settings = settings_for(config={"bootstrap.servers": None, "bootstrap.controllers": str(address)})
    result = await probe_all(settings, None)
    assert answered(result) == [3000, 3001]
    assert {heard.role for heard in result.heard} == {"controller"}
    (request,) = asked(cluster.nodes[3000], DescribeClusterRequest)
    assert request.endpoint_type == CONTROLLERS


async def test_controllers_that_are_too_old_to_be_found_are_told(cluster, settings_for):
    """Before 3.7 they do not list DescribeCluster."""
    address = await cluster.add(3000, {18: (0, 3), 52: (0, 0)})
    settings = settings_for(config={"bootstrap.servers": None, "bootstrap.controllers": str(address)})
    with pytest.raises(DiscoveryError) as caught:
        await probe_all(settings, None)
    assert isinstance(caught.value.causes[0][1], UnsupportedVersion)


@pytest.mark.parametrize("code", [114, 31])
async def test_a_broker_that_will_not_describe_its_cluster_is_told(cluster, settings_for, code):
    """114 is the wrong kind of endpoint; anything else is the broker's own error."""
    address = await cluster.add(1)
    cluster.nodes[1].says[DescribeClusterRequest] = lambda *_: DescribeClusterResponse(error_code=code)
    with pytest.raises(DiscoveryError) as caught:
        await probe_all(settings_for(address), None)
    assert isinstance(caught.value.causes[0][1], ConfigError if code == 114 else BrokerError)


SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
CREDENTIALS = {"sasl.username": "app", "sasl.password": "hunter2"}


async def test_only_who_tells_the_roster_is_authenticated_to(cluster, settings_for):
    """ApiVersions is answered before; a hash per broker and poll would be a waste."""
    address = await cluster.add(1)
    await cluster.add(2)
    cluster.nodes[1].says[SaslAuthenticateRequest] = lambda *_: SaslAuthenticateResponse()
    assert answered(await probe_all(settings_for(address, config=SASL | CREDENTIALS), None)) == [1, 2]
    assert len(asked(cluster.nodes[1], SaslAuthenticateRequest)) == 1
    assert not asked(cluster.nodes[2], SaslHandshakeRequest)


async def test_wrong_credentials_are_the_cause(cluster, settings_for):
    """Nobody who answered could be asked who belongs to the cluster."""
    address = await cluster.add(1)
    cluster.nodes[1].says[SaslAuthenticateRequest] = lambda *_: SaslAuthenticateResponse(error_code=58)
    with pytest.raises(DiscoveryError) as caught:
        await probe_all(settings_for(address, config=SASL | CREDENTIALS), None)
    assert isinstance(caught.value.causes[0][1], AuthenticationFailed)


async def test_a_listed_roster_needs_no_credentials(cluster, settings_for, closed_port):
    """Nothing but ApiVersions is sent; nobody knows the node ids."""
    addresses = [await cluster.add(node_id) for node_id in (1, 2)]
    result = await probe_all(settings_for(*addresses, closed_port, broker_list="bootstrap", config=SASL), None)
    assert [heard.node_id for heard in result.heard] == [None, None, None]
    assert [heard.failure is None for heard in result.heard] == [True, True, False]
    assert [heard.address for heard in result.heard] == [*addresses, closed_port]
    assert result.broker_list.source == "bootstrap"
    assert {type(request) for node in cluster.nodes.values() for request, _ in node.asked} <= {
        type(None),
        ApiVersionsRequest,
    }


async def test_a_controller_in_a_listed_roster_has_failed(cluster, settings_for):
    """Its answer means something else."""
    addresses = [await cluster.add(1), await cluster.add(3000, CONTROLLER_APIS)]
    result = await probe_all(settings_for(*addresses, broker_list="bootstrap"), None)
    assert isinstance(result.heard[1].failure, ConfigError)


async def test_a_listed_roster_of_which_nobody_answers_is_an_error(settings_for, closed_port):
    """As always."""
    with pytest.raises(DiscoveryError, match="Connection refused"):
        await probe_all(settings_for(closed_port, broker_list="bootstrap"), None)


async def test_cancelling_a_survey_leaves_nothing_behind(cluster, settings_for):
    """Every connection is closed; unclosed ones would be warnings, and warnings are errors here."""
    address = await cluster.add(1)
    reached, gone = asyncio.Event(), asyncio.Event()

    async def talk(reader, writer):
        await reader.read(1)
        reached.set()
        await reader.read()
        gone.set()

    await cluster.add(2, talk=talk)
    task = asyncio.ensure_future(probe_all(settings_for(address), None))
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await gone.wait()


@pytest.mark.parametrize("host", ["a\n2026 ERROR", "\x1b[31m", "a b", "a" * 256])
async def test_invariant_7_a_host_that_is_none_is_refused(cluster, settings_for, host):
    """It would reach logs and terminals, and the resolver, which takes seconds for a name of a million letters."""
    address = await cluster.add(1)
    cluster.list(2, Address(host, 9092))
    with pytest.raises(DiscoveryError) as caught:
        await probe_all(settings_for(address), None)
    assert isinstance(caught.value.causes[0][1], RemoteWireError)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("cluster_id", ["a\n2026 ERROR", "a" * 256])
async def test_invariant_7_a_cluster_id_that_is_none_is_refused(cluster, settings_for, cluster_id):
    """It is logged when it changes."""
    address = await cluster.add(1)
    cluster.cluster_id = cluster_id
    with pytest.raises(DiscoveryError, match="this is no cluster id"):
        await probe_all(settings_for(address), None)


async def test_invariant_7_a_brokers_own_words_fit_on_one_line(cluster, settings_for):
    """However long they are and whatever is in them."""
    address = await cluster.add(1)
    said = DescribeClusterResponse(error_code=31, error_message="line\nline\x1b[31m" + "x" * 1000)
    cluster.nodes[1].says[DescribeClusterRequest] = lambda *_: said
    with pytest.raises(DiscoveryError) as caught:
        await probe_all(settings_for(address), None)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 500


async def test_invariant_7_a_survey_can_be_cancelled_at_any_step(cluster, settings_for, serve, silent):
    """No task is left, and no connection: that would be a warning, and warnings are errors here."""
    stuck = await serve(silent)
    addresses = [await cluster.add(node_id) for node_id in (1, 2)]
    settings = settings_for(Address("localhost", addresses[0].port), stuck)
    for steps in itertools.count():
        task = asyncio.ensure_future(probe_all(settings, None))
        for _ in range(steps):
            await asyncio.sleep(0)
        if task.done():
            break
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        mine = [one for one in asyncio.all_tasks() if one.get_coro().cr_code.co_filename.startswith(NET)]
        assert mine == []
    assert answered(await task) == [1, 2]
    gc.collect()
