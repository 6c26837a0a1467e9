"""A probe of a whole cluster: the broker list, and the answer of each node."""

import asyncio
import gc
import itertools
from contextlib import asynccontextmanager
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
    UnknownHost,
    UnsupportedVersion,
)
from featuregate.net.cluster_metadata import BrokerList
from featuregate.net.connection import new_connection
from featuregate.net.probe import probe_all
from featuregate.wire.api_versions import ApiVersionsRequest, ApiVersionsResponse
from featuregate.wire.cluster import CONTROLLERS, DescribeClusterRequest, DescribeClusterResponse, Node
from featuregate.wire.metadata import MetadataRequest, MetadataResponse
from featuregate.wire.sasl import SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest

NET = str(Path(featuregate.net.__file__).parent)
SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
CREDENTIALS = {"sasl.username": "app", "sasl.password": "hunter2"}
CONTROLLER_APIS = {1: (4, 17), 18: (0, 4), 52: (0, 2), 60: (0, 2), 62: (0, 4)}


class FakeNodes:
    """Nodes that list each other."""

    def __init__(self, serve, fake_node):
        self._serve, self._fake_node = serve, fake_node
        self.nodes, self.listing = {}, []
        self.cluster_id = "cluster-1"

    async def add(self, node_id, api_ranges=None, *, talk=None):
        """Start one more node, or `talk` in its place."""
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
        """Add a node to the list that every node gives."""
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


@pytest.fixture
def look(in_each_loop):
    """Return `probe_all` for each loop."""

    async def run(settings, known):
        return await in_each_loop(probe_all(settings, known))

    return run


def asked(node, request_class):
    """Return the requests of one class that a node received."""
    return [request for request, _ in node.asked if isinstance(request, request_class)]


def answered(probe):
    """Return the ids of the nodes that answered."""
    return [node.node_id for node in probe.results if node.response is not None]


async def test_every_node_of_the_cluster_is_probed(cluster, settings_for, look):
    """The bootstrap list names one of them."""
    addresses = [await cluster.add(node_id) for node_id in (1, 2, 3)]
    probe = await look(settings_for(addresses[1]), None)
    assert answered(probe) == [1, 2, 3]
    assert [node.address for node in probe.results] == addresses
    expected = BrokerList("cluster-1", 1, tuple(cluster.listing), source="cluster", registered=True)
    assert probe.broker_list == expected


async def test_the_node_that_gives_the_broker_list_is_not_probed_again(cluster, settings_for, look):
    """A poll opens one connection to each node."""
    address = await cluster.add(1)
    await look(settings_for(address), None)
    assert len(asked(cluster.nodes[1], ApiVersionsRequest)) == 1


async def test_an_answer_through_another_address_counts_for_no_node(cluster, settings_for, look):
    """Behind a load balancer any node may have answered, so the probe asks all."""
    address = await cluster.add(1)
    probe = await look(settings_for(Address("localhost", address.port)), None)
    assert answered(probe) == [1]
    assert len(asked(cluster.nodes[1], ApiVersionsRequest)) == 2


@pytest.mark.parametrize(
    ("api_ranges", "cluster_id"),
    [
        ({3: (0, 8), 18: (0, 2)}, "cluster-1"),
        ({3: (0, 1), 18: (0, 0)}, None),  # Metadata v1, of brokers of 0.10, has no field for it
        ({3: (0, 12), 18: (0, 3), 60: (0, 1)}, "cluster-1"),  # DescribeCluster v1 has no field for fenced brokers
    ],
)
async def test_older_brokers_leave_out_those_that_are_down(cluster, settings_for, api_ranges, cluster_id, look):
    """Metadata finds them before 2.8. The broker list says that it has not all that are registered."""
    probe = await look(settings_for(await cluster.add(1, api_ranges)), None)
    assert answered(probe) == [1]
    assert (probe.broker_list.registered, probe.broker_list.cluster_id) == (False, cluster_id)


async def test_a_fenced_broker_is_listed_and_probed(cluster, settings_for, closed_port, look):
    """The broker is registered, and may come back with the old release."""
    address = await cluster.add(1)
    cluster.list(2, closed_port, is_fenced=True)
    probe = await look(settings_for(address), None)
    assert probe.broker_list.nodes[1].is_fenced
    assert isinstance(probe.results[1].failure, ConnectFailed)


async def test_silent_nodes_are_failures_beside_the_others_answers(cluster, settings_for):
    """The probe waits for them concurrently, so any number of silent nodes costs one timeout."""
    address = await cluster.add(1)
    both = asyncio.Barrier(2)
    met = []

    async def silent(reader, writer):
        met.append(await both.wait())
        await reader.read()

    for node_id in (2, 3):
        await cluster.add(node_id, talk=silent)
    probe = await probe_all(settings_for(address, request_timeout=0.5), None)
    assert [type(node.failure) for node in probe.results] == [type(None), TimedOut, TimedOut]
    assert sorted(met) == [0, 1]


async def test_each_failure_has_its_own_cause(cluster, settings_for, closed_port, look):
    address = await cluster.add(1)

    async def nonsense(reader, writer):
        await reader.read(1)
        writer.write(b"HTTP/1.1 400\r\n")

    await cluster.add(2, talk=nonsense)
    cluster.list(3, closed_port)
    cluster.list(4, Address("nowhere.invalid", 9092))
    cluster.list(5, Address("", 0))
    probe = await look(settings_for(address), None)
    assert answered(probe) == [1]
    assert [type(node.failure) for node in probe.results[1:]] == [
        RemoteWireError,
        ConnectFailed,
        UnknownHost,
        ConnectFailed,
    ]
    assert "resolving the name" in str(probe.results[3].failure)


async def test_an_unexpected_error_leaves_no_probe_of_another_node_behind(cluster, settings_for, silent):
    """Otherwise these probes would continue in the event loop of the app."""
    address = await cluster.add(1)
    spoiled = await cluster.add(2)
    await cluster.add(3, talk=silent)

    def connect(to, settings, expected=None):
        if to == spoiled:
            raise RuntimeError("a defect")
        return new_connection(to, settings, expected)

    before = asyncio.all_tasks()
    with pytest.raises(RuntimeError, match="a defect"):
        await probe_all(settings_for(address), None, connect)
    names = [task.get_coro().__qualname__ for task in asyncio.all_tasks() - before]
    assert not [name for name in names if "probe" in name]


async def test_the_request_names_the_node_that_is_expected(cluster, settings_for, look):
    """It carries cluster id and node id once they are known, so not the first request of all, which is sent again."""
    v5 = {3: (0, 13), 18: (0, 5), 60: (0, 2)}
    addresses = [await cluster.add(node_id, v5) for node_id in (1, 2)]
    settings = settings_for(addresses[0])
    first = await look(settings, None)
    (hello,) = asked(cluster.nodes[2], ApiVersionsRequest)
    assert (hello.cluster_id, hello.node_id) == ("cluster-1", 2)
    await look(settings, first.broker_list)
    assert [request.node_id for request in asked(cluster.nodes[1], ApiVersionsRequest)] == [-1, 1, 1]


async def test_a_node_with_other_ids_has_failed(cluster, settings_for, look):
    """The node answers error 129 to the expected ids."""
    address = await cluster.add(1)
    await cluster.add(2)
    cluster.nodes[2].says[ApiVersionsRequest] = lambda *_: ApiVersionsResponse(error_code=129, api_ranges={})
    failure = (await look(settings_for(address), None)).results[1].failure
    assert isinstance(failure, BrokerError)
    assert failure.code == 129


async def test_known_nodes_are_asked_for_the_list_before_the_bootstrap_servers(
    cluster, settings_for, closed_port, look
):
    """The bootstrap servers may be gone."""
    address = await cluster.add(1)
    broker_list = (await look(settings_for(address), None)).broker_list
    assert answered(await look(settings_for(closed_port), broker_list)) == [1]


async def test_when_all_known_nodes_are_gone_the_bootstrap_list_counts(cluster, settings_for, closed_port, look):
    """The cluster has moved."""
    address = await cluster.add(1)
    gone = tuple(Node(node_id=node_id, host=closed_port.host, port=closed_port.port) for node_id in range(10, 20))
    known = BrokerList(cluster_id="cluster-1", controller_id=None, nodes=gone, source="cluster", registered=False)
    assert answered(await look(settings_for(address), known)) == [1]


async def test_a_cluster_that_was_rebuilt_at_the_same_address_is_found(cluster, settings_for, look):
    """The node there refuses the known ids; the request to the bootstrap address names none."""
    address = await cluster.add(1, {3: (0, 13), 18: (0, 5), 60: (0, 2)})

    def check(request, _):
        wrong = request.cluster_id not in {None, cluster.cluster_id}
        return ApiVersionsResponse(error_code=129 if wrong else 0, api_ranges={3: (0, 13), 18: (0, 5), 60: (0, 2)})

    cluster.nodes[1].says[ApiVersionsRequest] = check
    known = (await look(settings_for(address), None)).broker_list
    cluster.cluster_id = "cluster-2"
    assert (await look(settings_for(address), known)).broker_list.cluster_id == "cluster-2"


async def test_new_nodes_are_picked_up_and_removed_ones_dropped(cluster, settings_for, look):
    address = await cluster.add(1)
    await cluster.add(2)
    known = (await look(settings_for(address), None)).broker_list
    await cluster.add(3)
    cluster.listing = [node for node in cluster.listing if node.node_id != 2]
    assert answered(await look(settings_for(address), known)) == [1, 3]


async def test_where_no_node_answers_the_error_holds_every_cause(serve, settings_for, silent, closed_port, look):
    stuck = await serve(silent)
    with pytest.raises(DiscoveryError) as caught:
        await look(settings_for(stuck, closed_port, request_timeout=0.1), None)
    causes = dict(caught.value.causes)
    assert isinstance(causes[str(stuck)], TimedOut)
    assert isinstance(causes[str(closed_port)], ConnectFailed)


async def test_invariant_7_the_total_timeout_limits_fetching_the_broker_list(serve, settings_for, silent, look):
    """The total timeout applies although the timeout of one request is longer."""
    stuck = await serve(silent)
    with pytest.raises(DiscoveryError, match=r"the 0\.2 s in total have passed"):
        await look(settings_for(stuck, total_timeout=0.2), None)


async def test_an_answer_counts_although_its_connection_is_not_ready_when_the_time_ends(
    cluster, settings_for, monkeypatch
):
    """A connection that is kept is authenticated after the answer."""
    address = await cluster.add(1)
    await cluster.add(2)
    loop = asyncio.get_running_loop()
    now = loop.time

    @asynccontextmanager
    async def connect(to, settings, expected=None):
        async with new_connection(to, settings, expected) as found:
            yield found
            if to != address:
                monkeypatch.setattr(loop, "time", lambda: now() + 60.0)
                await asyncio.Event().wait()

    probe = await probe_all(settings_for(address, total_timeout=30.0), None, connect)
    assert [result.failure for result in probe.results] == [None, None]


async def test_invariant_7_the_total_timeout_limits_the_probe(cluster, settings_for, silent, look):
    """A node that has not answered by then counts as failed; the probe keeps the other answers."""
    address = await cluster.add(1)
    for node_id in (2, 3):
        await cluster.add(node_id, talk=silent)
    probe = await look(settings_for(address, total_timeout=0.5, concurrency=1), None)
    assert answered(probe) == [1]
    assert all(isinstance(node.failure, TimedOut) for node in probe.results[1:])
    assert "the 0.5 s for all brokers have passed" in str(probe.results[2].failure)


async def test_invariant_14_no_node_is_asked_after_the_deadline(cluster, settings_for, monkeypatch):
    """Also where the loop had no moment to run the timer; the other nodes count as not having answered in time."""
    address = await cluster.add(1)
    for node_id in (2, 3, 4):
        cluster.list(node_id, Address("b", node_id))
    loop, asked_ports = asyncio.get_running_loop(), []
    now = loop.time
    monkeypatch.setattr(loop, "time", lambda: now() + 60.0 * len(asked_ports))

    @asynccontextmanager
    async def connect(to, settings, expected=None):
        if to != address:
            asked_ports.append(to.port)
            raise ConnectFailed(to, "connecting")
        async with new_connection(to, settings, expected) as found:
            yield found

    probe = await probe_all(settings_for(address, total_timeout=30.0, concurrency=1), None, connect)
    assert asked_ports == [2]
    assert answered(probe) == [1]
    assert [type(result.failure) for result in probe.results[1:]] == [ConnectFailed, TimedOut, TimedOut]


async def test_concurrency_limits_the_connections(cluster, settings_for, serve, look):
    """A probe of a thousand brokers must not open a thousand sockets."""
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
    probe = await look(settings_for(address, concurrency=2), None)
    assert len(answered(probe)) == 11
    assert most <= 3  # the listener may notice the end of one after the beginning of the next


@pytest.mark.parametrize(
    ("nodes", "problem"),
    [
        (0, "the broker list is empty, so the node is probably starting"),
        (10_001, "10001 nodes are more than a cluster can have"),
    ],
)
async def test_invariant_7_a_broker_list_of_no_cluster_is_refused(cluster, settings_for, nodes, problem, look):
    """The probe opens no connection to more nodes than a cluster can have. A cluster has at least one broker."""
    address = await cluster.add(1)
    cluster.listing = [Node(node_id=node_id, host="h", port=1) for node_id in range(nodes)]
    with pytest.raises(DiscoveryError, match=problem):
        await look(settings_for(address), None)


async def test_a_node_id_that_is_listed_twice_is_probed_once(cluster, settings_for, look):
    address = await cluster.add(1)
    cluster.list(1, address)
    assert answered(await look(settings_for(address), None)) == [1]


async def test_an_answer_counts_for_one_node_at_the_most(cluster, settings_for, look):
    """Two nodes that advertise one address cannot be told apart by it, so the probe asks both."""
    address = await cluster.add(1)
    cluster.list(2, address)
    await look(settings_for(address), None)
    assert len(asked(cluster.nodes[1], ApiVersionsRequest)) == 3


async def test_certificates_that_cannot_be_used_are_an_error_of_the_configuration(
    settings_for, closed_port, tmp_path, look
):
    (tmp_path / "ca.pem").write_text("nonsense")
    config = {"security.protocol": "SSL", "ssl.ca.location": str(tmp_path / "ca.pem")}
    with pytest.raises(ConfigError, match=r"ssl\.ca\.location"):
        await look(settings_for(closed_port, config=config), None)


async def test_advertised_addresses_that_do_not_work_are_reported(cluster, settings_for, closed_port, look):
    """The bootstrap address answers, but no broker does at its advertised address."""
    address = await cluster.add(1)
    cluster.listing.clear()
    cluster.list(1, closed_port)
    with pytest.raises(DiscoveryError, match="Connection refused") as caught:
        await look(settings_for(address), None)
    assert caught.value.listed_by == str(address)


async def cause_of(settings):
    """Probe in vain, and return the first cause."""
    with pytest.raises(DiscoveryError) as caught:
        await probe_all(settings, None)
    return caught.value.causes[0][1]


async def test_a_controller_in_bootstrap_servers_is_refused(cluster, settings_for):
    """The probe recognises a controller by the APIs that it lists."""
    address = await cluster.add(3000, CONTROLLER_APIS)
    cause = await cause_of(settings_for(address))
    assert isinstance(cause, ConfigError)
    assert (
        str(cause)
        == f"bootstrap.servers: {address} is a controller: use bootstrap.controllers, or --bootstrap-controller"
    )


async def test_a_broker_in_bootstrap_controllers_is_refused(cluster, settings_for, look):
    """Brokers list Metadata, and controllers do not."""
    address = await cluster.add(1)
    settings = settings_for(config={"bootstrap.servers": None, "bootstrap.controllers": str(address)})
    with pytest.raises(DiscoveryError, match=r"is a broker: use bootstrap\.servers"):
        await look(settings, None)


async def test_controllers_are_found_by_describe_cluster(cluster, settings_for, look):
    """The request has endpoint type 2 (KIP-919)."""
    address = await cluster.add(3000, CONTROLLER_APIS)
    await cluster.add(3001, CONTROLLER_APIS)
    settings = settings_for(config={"bootstrap.servers": None, "bootstrap.controllers": str(address)})
    probe = await look(settings, None)
    assert answered(probe) == [3000, 3001]
    assert {node.role for node in probe.results} == {"controller"}
    (request,) = asked(cluster.nodes[3000], DescribeClusterRequest)
    assert request.endpoint_type == CONTROLLERS


async def test_controllers_without_describe_cluster_are_reported(cluster, settings_for):
    """Controllers before 3.7 do not list it."""
    address = await cluster.add(3000, {18: (0, 3), 52: (0, 0)})
    settings = settings_for(config={"bootstrap.servers": None, "bootstrap.controllers": str(address)})
    assert isinstance(await cause_of(settings), UnsupportedVersion)


@pytest.mark.parametrize(
    ("request_class", "response", "cause"),
    [
        (DescribeClusterRequest, DescribeClusterResponse(error_code=114), ConfigError),  # another type of endpoint
        (DescribeClusterRequest, DescribeClusterResponse(error_code=31), BrokerError),
        (SaslAuthenticateRequest, SaslAuthenticateResponse(error_code=58), AuthenticationFailed),
    ],
)
async def test_an_error_code_is_the_cause(cluster, settings_for, request_class, response, cause):
    """Without authentication no node gives the broker list."""
    address = await cluster.add(1)
    cluster.nodes[1].says[request_class] = lambda *_: response
    config = SASL | CREDENTIALS if request_class is SaslAuthenticateRequest else {}
    assert isinstance(await cause_of(settings_for(address, config=config)), cause)


async def test_the_probe_authenticates_only_where_it_fetches_the_broker_list(cluster, settings_for, look):
    """Brokers answer ApiVersions before authentication, so the probe saves a hash for each broker and poll."""
    address = await cluster.add(1)
    await cluster.add(2)
    cluster.nodes[1].says[SaslAuthenticateRequest] = lambda *_: SaslAuthenticateResponse()
    assert answered(await look(settings_for(address, config=SASL | CREDENTIALS), None)) == [1, 2]
    assert len(asked(cluster.nodes[1], SaslAuthenticateRequest)) == 1
    assert not asked(cluster.nodes[2], SaslHandshakeRequest)


async def test_a_bootstrap_broker_list_needs_no_credentials(cluster, settings_for, closed_port, look):
    """The probe sends ApiVersions alone, and does not know the node ids."""
    addresses = [await cluster.add(node_id) for node_id in (1, 2)]
    probe = await look(settings_for(*addresses, closed_port, broker_list="bootstrap", config=SASL), None)
    assert [node.node_id for node in probe.results] == [None, None, None]
    assert [node.failure is None for node in probe.results] == [True, True, False]
    assert [node.address for node in probe.results] == [*addresses, closed_port]
    assert probe.broker_list.source == "bootstrap"
    assert {type(request) for node in cluster.nodes.values() for request, _ in node.asked} <= {
        type(None),
        ApiVersionsRequest,
    }


async def test_a_controller_in_a_bootstrap_broker_list_has_failed(cluster, settings_for, look):
    """The levels of a controller are not those of a broker, so the probe does not count the answer."""
    addresses = [await cluster.add(1), await cluster.add(3000, CONTROLLER_APIS)]
    probe = await look(settings_for(*addresses, broker_list="bootstrap"), None)
    assert isinstance(probe.results[1].failure, ConfigError)


@pytest.mark.parametrize("host", ["a\n2026 ERROR", "\x1b[31m", "a b", "a" * 256])
async def test_invariant_7_a_host_that_is_not_valid_is_refused(cluster, settings_for, host, look):
    """The host would reach logs and the resolver, which takes seconds for a name of a million letters."""
    address = await cluster.add(1)
    cluster.list(2, Address(host, 9092))
    with pytest.raises(DiscoveryError) as caught:
        await look(settings_for(address), None)
    assert isinstance(caught.value.causes[0][1], RemoteWireError)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("cluster_id", ["a\n2026 ERROR", "a" * 256])
async def test_invariant_7_a_cluster_id_that_is_not_valid_is_refused(cluster, settings_for, cluster_id, look):
    """The cluster id is logged when it changes."""
    address = await cluster.add(1)
    cluster.cluster_id = cluster_id
    with pytest.raises(DiscoveryError, match="not a valid cluster id"):
        await look(settings_for(address), None)


async def test_invariant_7_the_message_of_a_broker_is_cut_to_one_line(cluster, settings_for, look):
    """The message may be long and hold control characters."""
    address = await cluster.add(1)
    said = DescribeClusterResponse(error_code=31, error_message="line\nline\x1b[31m" + "x" * 1000)
    cluster.nodes[1].says[DescribeClusterRequest] = lambda *_: said
    with pytest.raises(DiscoveryError) as caught:
        await look(settings_for(address), None)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 500


async def test_invariant_7_a_probe_can_be_cancelled_at_any_step(cluster, settings_for, serve, silent):
    """No task and no connection is left; an open one would be a warning, and warnings are errors here."""
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
