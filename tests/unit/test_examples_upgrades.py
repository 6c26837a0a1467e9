"""The worked examples of tests with upgrades are tests themselves: here they run."""

import runpy
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "examples" / "upgrades"
EXAMPLES = {path.stem: runpy.run_path(str(path)) for path in sorted(FOLDER.glob("test_*.py"))}


def test_there_are_three_of_them() -> None:
    """Each of the three examples has tests."""
    assert len(EXAMPLES) == 3
    assert all(any(name.startswith("test_") for name in names) for names in EXAMPLES.values())


globals().update({name: test for names in EXAMPLES.values() for name, test in names.items() if name[:5] == "test_"})
