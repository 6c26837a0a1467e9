"""The fixtures of the pytest plugin, and the cost of loading it."""

import json
import subprocess
import sys

import pytest

import featuregate.testing

pytest_plugins = ["pytester"]

LOADED = """
import json, sys
import pytest, featuregate
before = set(sys.modules)
import featuregate.testing.plugin
print(json.dumps([sorted(set(sys.modules) - before), sorted(sys.modules)]))
"""


def test_loading_the_plugin_loads_nothing_else() -> None:
    """The plugin imports only what a used fixture needs: every test run loads it."""
    said = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True, timeout=60)
    added, loaded = json.loads(said.stdout)
    assert added == ["featuregate.testing", "featuregate.testing.plugin"]
    assert not {
        "asyncio",
        "ssl",
        "jgo",
        "trustme",
        "featuregate.net",
        "featuregate.testing.fakes.cluster",
        "featuregate.testing.random_upgrades",
    } & set(loaded)


def test_fixtures_need_no_conftest(pytester: pytest.Pytester) -> None:
    """A project with featuregate installed can use the fixtures without imports."""
    pytester.makepyfile(
        """
        import pytest

        kept = []

        def test_one_cluster(fake_kafka):
            assert len(fake_kafka.brokers) == 3
            kept.append(fake_kafka)

        @pytest.mark.fake_kafka(5, epoch=7)
        def test_marker(fake_kafka):
            assert len(fake_kafka.brokers) == 5
            assert fake_kafka.epoch == 7

        def test_factory(fake_cluster):
            one, other = fake_cluster(brokers=1), fake_cluster(2)
            assert one.cluster_id != other.cluster_id
            kept.extend([one, other])

        def test_they_were_closed():
            for cluster in kept:
                with pytest.raises(Exception, match="closed"):
                    cluster.start()
        """
    )
    run = pytester.runpytest_subprocess("-p", "no:asyncio", "--strict-markers", "-W", "error")
    run.assert_outcomes(passed=4)


def test_the_front_door_of_testing_knows_its_names() -> None:
    """Names are imported on first use; an unknown name is an AttributeError."""
    assert set(featuregate.testing.__all__) <= set(dir(featuregate.testing))
    for name in ("FakeCluster", "StaticFeatures", "UpgradeStep", "release_view", "upgrades"):
        assert getattr(featuregate.testing, name).__name__ == name
    with pytest.raises(AttributeError, match="has no attribute 'Nonsense'"):
        _ = featuregate.testing.Nonsense
