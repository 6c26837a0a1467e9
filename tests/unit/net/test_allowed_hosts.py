"""Connections to hosts that metadata names, where the app lists the hosts that are allowed."""

import socket
from dataclasses import replace
from itertools import cycle

import pytest

import featuregate as fg
from featuregate.config import Address
from featuregate.config.allowed_hosts import allowed_hosts
from featuregate.errors import DiscoveryError, HostNotAllowed
from featuregate.net.connection import Connection
from featuregate.testing import FakeCluster


def resolving_to(monkeypatch, *literals):
    """Let every name resolve to these addresses, and return the names that were looked up."""
    looked_up, real = [], socket.getaddrinfo

    def resolve(host, port, *rest, **more):
        if host in literals:
            return real(host, port, *rest, **more)
        looked_up.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (literal, port)) for literal in literals]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    return looked_up


async def test_nothing_is_sent_to_a_host_that_is_not_listed(serve, fake_node, settings_for, monkeypatch):
    """The resolver is not asked either, and the next connection goes to the listed address alone."""
    node = fake_node()
    address = Address("broker.example", (await serve(node)).port)
    looked_up = resolving_to(monkeypatch, "127.0.0.9", "127.0.0.1")
    for entries in ("other.example", f"127.0.0.0/8:{address.port + 1}", "10.0.0.0/8"):
        settings = replace(settings_for(address), allowed_hosts=allowed_hosts(entries))
        with pytest.raises(HostNotAllowed, match=r"featuregate\.allowed\.hosts lists neither"):
            await Connection.open(address, settings)
    assert looked_up == [b"broker.example"]
    assert node.asked == []
    settings = replace(settings_for(address), allowed_hosts=allowed_hosts("127.0.0.1"))
    connection = await Connection.open(address, settings)
    assert connection.peer == ("127.0.0.1", address.port)
    connection.close()


async def test_another_answer_of_the_resolver_changes_nothing(serve, fake_node, settings_for, monkeypatch):
    """Each name leads here first, and then to another host (DNS rebinding), which gets no connection."""
    address = Address("broker.example", (await serve(fake_node())).port)
    settings = replace(settings_for(address), allowed_hosts=allowed_hosts("127.0.0.1"))
    answers = cycle(["127.0.0.1", "127.0.0.9"])
    real = socket.getaddrinfo

    def resolve(host, port, *rest, **more):
        named = next(answers) if host == b"broker.example" else host
        return real(named, port, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with socket.create_server(("127.0.0.9", address.port)) as elsewhere:
        elsewhere.settimeout(0)
        for _ in range(3):
            connection = await Connection.open(address, settings)
            assert connection.peer == ("127.0.0.1", address.port)
            connection.close()
            with pytest.raises(HostNotAllowed):
                await Connection.open(address, settings)
        with pytest.raises(BlockingIOError):
            elsewhere.accept()


async def test_a_literal_is_compared_with_networks(serve, fake_node, settings_for):
    """It needs no resolver."""
    address = await serve(fake_node())
    settings = replace(settings_for(address), allowed_hosts=allowed_hosts("10.0.0.0/8,localhost"))
    with pytest.raises(HostNotAllowed, match=r"nor 127\.0\.0\.1"):
        await Connection.open(address, settings)


def test_a_broker_that_is_not_listed_is_a_failed_answer():
    """The other brokers answer, on kept connections and on new ones, and the credentials stay here."""
    with FakeCluster(3) as cluster:
        first, second, _ = (broker.port for broker in cluster.brokers)
        allowed = [f"127.0.0.1:{first}", f"127.0.0.1:{second}"]
        view = fg.discover(cluster.bootstrap, allowed_hosts=allowed)
        assert [(broker.node_id, broker.failure.kind) for broker in view.missing] == [(3, "HostNotAllowed")]
        with fg.Discoverer(source=fg.BrokerSource(cluster.bootstrap, allowed_hosts=allowed), interval=3600) as features:
            assert [broker.node_id for broker in features.refresh(30).missing] == [3]
            assert [broker.node_id for broker in features.refresh(30).missing] == [3]
        with pytest.raises(DiscoveryError, match="not allowed"):
            fg.discover({"bootstrap.servers": cluster.bootstrap, "featuregate.allowed.hosts": "*.example.com"})
