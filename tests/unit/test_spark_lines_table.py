"""The table that the proof of the lines of Spark writes into the page on compatibility."""

from spark_lines.table import BEGIN, END, with_column


def test_a_run_of_one_release_replaces_its_column_and_keeps_the_others() -> None:
    """The columns are in the order of releases, and a capability that a release did not run is not run."""
    page = with_column(f"# Page\n\n{BEGIN}{END}\nMore\n", "4.10.0", {"pins": "2026-11-26"})
    page = with_column(page, "4.2.1", {"pins": "2026-11-25", "sink": "no connector"})
    page = with_column(page, "4.2.1", {"pins": "2026-11-27", "sink": "no connector"})
    assert page == (
        f"# Page\n\n{BEGIN}| with PySpark | 4.2.1 | 4.10.0 |\n| --- | --- | --- |\n"
        f"| pins | 2026-11-27 | 2026-11-26 |\n| sink | no connector | not run |\n{END}\nMore\n"
    )
