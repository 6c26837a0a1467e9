"""Each check is on the page, and has a test in which it gives its worst verdict, and one in which it passes."""

import ast
import re
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import NamedTuple

import pytest

from featuregate_fleet.readiness import checks
from featuregate_fleet.readiness.known_checks import CHECKS
from featuregate_fleet.readiness.rows import Verdict


class Proof(NamedTuple):
    """The unit tests that show a check at work."""

    worst: Verdict
    shown_in: list[str]
    passes_in: list[str]


PROOFS = {
    "api-versions": Proof(
        Verdict.BLOCK,
        ["test_a_version_that_the_target_dropped_blocks"],
        ["test_a_client_within_the_ranges_of_the_target_is_ok"],
    ),
    "refused-requests": Proof(
        Verdict.BLOCK,
        ["test_a_refused_request_blocks_where_the_target_dropped_the_version_too"],
        ["test_a_refused_request_that_the_move_does_not_concern_is_a_warning"],
    ),
    "coverage": Proof(
        Verdict.UNKNOWN,
        ["test_a_broker_without_evidence_is_unknown"],
        ["test_a_client_within_the_ranges_of_the_target_is_ok"],
    ),
    "client-software": Proof(
        Verdict.BLOCK,
        ["test_a_client_that_ran_steadily_blocks_where_it_cannot_look_up_offsets"],
        ["test_a_producer_does_not_need_what_consumers_call"],
    ),
    "inter-broker": Proof(
        Verdict.BLOCK,
        ["test_invariant_11_a_client_that_merely_calls_itself_a_broker_counts"],
        ["test_brokers_do_not_block_their_own_downgrade"],
    ),
    "cut-requests": Proof(
        Verdict.UNKNOWN,
        ["test_a_client_whose_lines_are_all_cut_is_no_ok"],
        ["test_a_client_whose_lines_are_all_cut_is_no_ok"],
    ),
    "quarantine": Proof(
        Verdict.UNKNOWN,
        ["test_requests_in_quarantine_are_missing_evidence"],
        ["test_requests_in_quarantine_are_missing_evidence"],
    ),
    "newer-brokers": Proof(
        Verdict.UNKNOWN,
        ["test_a_move_to_older_brokers_is_unknown_without_levels_and_records"],
        ["test_a_move_to_older_brokers_is_unknown_without_levels_and_records"],
    ),
    "feature-levels": Proof(
        Verdict.BLOCK,
        [
            "test_a_level_that_the_release_does_not_support_blocks",
            "test_a_cluster_with_zookeeper_blocks_a_release_without_it",
        ],
        ["test_a_level_is_judged_by_the_rules_of_the_controller"],
    ),
    "metadata-log": Proof(
        Verdict.UNKNOWN,
        ["test_a_level_that_was_lowered_may_be_in_the_metadata_log"],
        ["test_a_level_that_was_lowered_may_be_in_the_metadata_log"],
    ),
    "brokers": Proof(
        Verdict.UNKNOWN,
        ["test_a_broker_that_does_not_answer_is_unknown"],
        ["test_brokers_of_a_release_that_supports_all_levels_start"],
    ),
    "coordinator-records": Proof(
        Verdict.BLOCK,
        [
            "test_records_are_held_against_what_the_release_reads",
            "test_a_level_that_takes_a_protocol_away_needs_new_and_readable_records",
        ],
        [
            "test_records_are_held_against_what_the_release_reads",
            "test_a_level_that_takes_a_protocol_away_needs_new_and_readable_records",
            "test_a_cluster_without_groups_is_ok",
        ],
    ),
    "protocols": Proof(
        Verdict.BLOCK,
        ["test_members_of_a_protocol_that_the_level_takes_away_block"],
        ["test_members_of_a_protocol_that_the_level_takes_away_block"],
    ),
    "models": Proof(
        Verdict.BLOCK,
        ["test_a_model_that_needs_generations_blocks_where_brokers_do_not_check_them"],
        ["test_a_model_that_needs_generations_blocks_where_brokers_do_not_check_them"],
    ),
    "transactions": Proof(
        Verdict.WARN,
        ["test_transactions_stay_open_while_4_2_0_and_older_brokers_run_together"],
        ["test_transactions_stay_open_while_4_2_0_and_older_brokers_run_together"],
    ),
    "app-gates": Proof(
        Verdict.BLOCK,
        ["test_a_move_that_takes_what_an_app_is_latched_on_blocks_and_names_the_app"],
        ["test_a_move_that_takes_nothing_from_a_gate_is_ok"],
    ),
    "usage-reports": Proof(
        Verdict.UNKNOWN,
        ["test_invariant_11_without_reports_a_move_that_takes_levels_is_unknown"],
        ["test_a_move_that_takes_nothing_from_a_gate_is_ok"],
    ),
}


def names_of_checks() -> set[str]:
    """Return what the rows of all checks say by ``check=``."""
    found: set[str] = set()
    for each in iter_modules(checks.__path__, f"{checks.__name__}."):
        module = import_module(each.name)
        assert module.__file__ is not None
        for node in ast.walk(ast.parse(Path(module.__file__).read_text())):
            if isinstance(node, ast.keyword) and node.arg == "check":
                assert isinstance(node.value, ast.Constant | ast.Name)
                given = node.value
                found.add(str(given.value if isinstance(given, ast.Constant) else getattr(module, given.id)))
    return found


@pytest.fixture(scope="module")
def sources() -> dict[str, str]:
    """Return the source of each unit test by its name, with its parameters."""
    found: dict[str, str] = {}
    for path in Path(__file__).parent.glob("*.py"):
        lines = path.read_text().splitlines()
        for node in ast.parse("\n".join(lines)).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                found[node.name] = "\n".join(lines[first - 1 : node.end_lineno])
    return found


def test_each_check_is_known_and_has_its_tests():
    """The page is written from the checks that are known; a new one has to say how it is proved."""
    assert [check.name for check in CHECKS] == list(dict.fromkeys(check.name for check in CHECKS))
    assert {check.name for check in CHECKS} == names_of_checks() == PROOFS.keys()


@pytest.mark.parametrize("name", PROOFS)
def test_the_tests_of_a_check_look_at_its_verdicts(name: str, sources: dict[str, str]):
    """The first ones at the worst one, and the others at a row that passes; a test that was renamed is noticed."""
    proof = PROOFS[name]
    assert f"Verdict.{proof.worst.name}" in "".join(sources[test] for test in proof.shown_in)
    passes = "".join(sources[test] for test in proof.passes_in)
    assert re.search(r"Verdict\.(OK|WARN)|== \[\]|== \{\}|set\(\)|\bnot \[", passes)


def test_a_check_that_blocks_on_the_page_blocks_in_its_test():
    """What never blocks has no text for it."""
    blocking = {name for name, proof in PROOFS.items() if proof.worst is Verdict.BLOCK} - {"inter-broker"}
    assert {check.name for check in CHECKS if check.blocks} == blocking
