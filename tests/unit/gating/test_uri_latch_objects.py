"""The objects of a latch store in an object store: their names, how many are kept, and what a backend may answer."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from typing import Any, ClassVar

import pytest

from featuregate.errors import ConfigError, LatchStoreError
from featuregate.gating.latches import LatchedGate, LatchState
from featuregate.gating.uri_latch_store import UriLatchStore

fsspec = pytest.importorskip("fsspec")

BOUND = 60.0
URI = "objects://bucket/latches"
FOLDER = "bucket/latches/cluster-c"


class Objects(fsspec.AbstractFileSystem):
    """A backend whose objects live in this process. ``before`` is called with each call, and may raise."""

    protocol = "objects"
    there: ClassVar[dict[str, bytes]] = {}
    calls: ClassVar[list[tuple[str, str]]] = []
    before: ClassVar[Callable[[str, str], None]]

    def _begin(self, call: str, path: str) -> None:
        self.calls.append((call, path))
        type(self).before(call, path)

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[str]:  # noqa: FBT001, FBT002 - of fsspec
        self._begin("ls", path)
        found = [name for name in self.there if name.startswith(f"{path}/")]
        if detail or not found:
            raise FileNotFoundError(path)
        return found

    def cat_file(self, path: str, **_: Any) -> bytes:
        self._begin("read", path)
        if path not in self.there:
            raise FileNotFoundError(path)
        return self.there[path]

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        self._begin(mode, path)
        if mode == "create" and path in self.there:
            raise FileExistsError(path)
        self.there[path] = value

    def rm_file(self, path: str) -> None:
        self._begin("remove", path)
        del self.there[path]


@pytest.fixture(autouse=True)
def objects() -> Iterator[type[Objects]]:
    """Return the backend, without objects."""
    fsspec.register_implementation("objects", Objects, clobber=True)
    Objects.before = staticmethod(lambda _call, _path: None)
    yield Objects
    Objects.there.clear()
    Objects.calls.clear()


def latched(*gates: str, cluster_id: str | None = "c") -> LatchState:
    opened = [LatchedGate(gate=gate, requirement="Fetch>=4", opened_at=1.0, epoch=1) for gate in gates]
    return LatchState(cluster_id=cluster_id, gates={each.key: each for each in opened})


def names(state: LatchState | None) -> set[str]:
    return {key.gate for key in state.gates} if state else set()


def failing(call: str, part: str, error: Exception, times: int = 100) -> Callable[[str, str], None]:
    """Raise the error at the first calls of a kind whose path has this part."""
    left = [error] * times

    def before(called: str, path: str) -> None:
        if called == call and part in path and left:
            raise left.pop()

    return staticmethod(before)


def test_the_last_five_states_are_kept_by_their_numbers(objects: type[Objects]) -> None:
    """Each has what the one before had. The object with which the store was tried is gone."""
    store = UriLatchStore(URI, timeout=BOUND)
    assert store.load("c") is None
    for number in range(8):
        assert names(store.save(latched(f"gate-{number}"))) == {f"gate-{each}" for each in range(number + 1)}
    assert sorted(objects.there) == [f"{FOLDER}/{number:012}.json" for number in range(4, 9)]
    assert names(UriLatchStore(f"{URI}/", timeout=BOUND).load("c")) == {f"gate-{each}" for each in range(8)}


def test_a_store_is_tried_once_with_an_object_of_a_name_of_its_own(objects: type[Objects]) -> None:
    """And a state that is there already is not written again."""
    store = UriLatchStore(URI, timeout=BOUND)
    for gate in ("a", "a", "b"):
        store.save(latched(gate))
    tried = [(call, path) for call, path in objects.calls if ".probe-" in path]
    (probe,) = {path for _, path in tried}
    assert re.fullmatch(rf"{FOLDER}/\.probe-[0-9a-f]{{16}}", probe)
    assert [call for call, _ in tried] == ["create", "create", "remove"]
    assert [path[-7:] for call, path in objects.calls if call == "create" and path != probe] == ["01.json", "02.json"]


def test_an_object_is_for_people_to_read(objects: type[Objects]) -> None:
    """It is indented, ends with a line end, and has each character as it is."""
    UriLatchStore(URI, timeout=BOUND).save(latched("größer"))
    text = objects.there[f"{FOLDER}/000000000001.json"].decode()
    assert text.startswith('{\n  "schema_version": 1,\n  "cluster_id": "c",')
    assert '"gate": "größer"' in text
    assert text.endswith("}\n")


def test_other_objects_are_no_states(objects: type[Objects]) -> None:
    """Somebody may have put them there."""
    for name in ("1.json", "0000000000099.json", "000000000099.json.bak", "x000000000099.json"):
        objects.there[f"{FOLDER}/{name}"] = b"?"
    store = UriLatchStore(URI, timeout=BOUND)
    assert store.load("c") is None
    assert names(store.save(latched("a"))) == {"a"}


@pytest.mark.parametrize(
    ("cluster_id", "place"),
    [("a/../é", "a%2F..%2F%C3%A9"), ("x" * 300, "x" * 200)],
)
def test_a_cluster_id_names_a_folder_below_the_uri(objects: type[Objects], cluster_id: str, place: str) -> None:
    """Whatever is in it."""
    UriLatchStore(URI, timeout=BOUND).save(latched("a", cluster_id=cluster_id))
    assert list(objects.there) == [f"bucket/latches/cluster-{place}/000000000001.json"]


def test_a_source_has_an_object_of_its_own(objects: type[Objects]) -> None:
    """Its name has one length, and an object of another source of the same name does not count."""
    store = UriLatchStore(URI, timeout=BOUND)
    store.note_cluster("b1é:9092", "c")
    (place,) = objects.there
    assert place == f"bucket/latches/{sha256('b1é:9092'.encode()).hexdigest()[:32]}.source"
    assert objects.there[place].decode() == '{"source": "b1é:9092", "cluster_id": "c"}'
    assert (store.last_cluster("b1é:9092"), store.last_cluster("b2"), store.last_cluster("\udcff")) == ("c", None, None)
    objects.there[place] = json.dumps({"source": "other", "cluster_id": "c"}).encode()
    assert store.last_cluster("b1é:9092") is None
    objects.there[place] = b"{"
    with pytest.raises(LatchStoreError, match=rf"^{URI}: its newest object is damaged \(source: this is not JSON"):
        store.last_cluster("b1é:9092")


def test_a_state_that_is_removed_while_it_is_read_is_looked_for_again(objects: type[Objects]) -> None:
    """Another writer has made newer ones since."""
    store = UriLatchStore(URI, timeout=BOUND)
    store.save(latched("a"))
    objects.before = failing("read", "01.json", FileNotFoundError(), times=1)
    assert names(store.load("c")) == {"a"}


def test_an_old_state_that_cannot_be_removed_costs_nothing(objects: type[Objects]) -> None:
    """The next writer tries again, and the states after it go all the same."""
    objects.before = failing("remove", "01.json", PermissionError())
    store = UriLatchStore(URI, timeout=BOUND)
    for number in range(7):
        store.save(latched(f"gate-{number}"))
    assert [int(name[-17:-5]) for name in sorted(objects.there)] == [1, 3, 4, 5, 6, 7]


def test_a_writer_that_never_gets_a_number_gives_up(objects: type[Objects]) -> None:
    """The thread in which it works must end as well."""
    objects.before = failing("create", ".json", FileExistsError())
    store = UriLatchStore(URI, timeout=0.01)
    with pytest.raises(LatchStoreError, match=rf"^{URI}: others have written at the same time for 0\.01 s$"):
        store._save("c", latched("a"))
    with suppress(LatchStoreError):
        store.save(latched("a"))
    store._running.join(BOUND)
    assert not store._running.is_alive()


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (OSError("no route\nto host"), "no route"),
        (OSError(), "OSError"),
        (RuntimeError("closed"), "closed"),
        (ValueError("bad"), "its newest object is damaged (bad): remove it, and the one before counts"),
        (LatchStoreError("here", "full"), None),
        (ConfigError("uri", "bad"), None),
    ],
)
def test_what_a_backend_raises_is_one_line(objects: type[Objects], error: Exception, problem: str | None) -> None:
    """With the place; errors of ours say it already. The store can be asked again."""
    objects.before = failing("ls", FOLDER, error, times=1)
    store = UriLatchStore(URI, timeout=BOUND)
    with pytest.raises((LatchStoreError, ConfigError)) as raised:
        store.load("c")
    assert str(raised.value) == (str(error) if problem is None else f"{URI}: {problem}")
    assert (raised.value is error) is (problem is None)
    assert store.load("c") is None


def test_a_backend_takes_the_options_and_lists_anew() -> None:
    """What another process has written counts at once, unless the app says otherwise. A call has ten seconds."""
    assert UriLatchStore(URI)._backend()[0].storage_options == {"use_listings_cache": False}
    options = {"use_listings_cache": True, "endpoint": "e"}
    assert UriLatchStore(URI, options=options)._backend()[0].storage_options == options
    assert UriLatchStore(URI)._timeout == 10


@pytest.mark.parametrize("uri", ["Objects://bucket", "objects://user@bucket/x", "objects://bucket:80/x:y"])
def test_an_object_store_is_named_by_any_scheme_that_has_a_backend(objects: type[Objects], uri: str) -> None:
    """In either case, with a user, or with a port."""
    fsspec.register_implementation("Objects", objects, clobber=True)
    assert repr(UriLatchStore(uri)) == f"UriLatchStore('{uri}')"
