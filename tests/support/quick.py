"""Which tests `make test` leaves to `make test-more`: what is slow, or said again.

Three rules mark a test as `more`, beside the mark itself where it stands at a test:

1. It is listed in `SLOW`.
2. Its function has several parameters, and their values in this case stand in others that `make
   test` runs.
3. Its function is listed in `GRIDS`, and the case is not one of the first so many of those that are
   left.

One case of each function that is left has the mark `one`: where all are run a second time, with
another BLAS kernel, these are. Tests with the mark `full` are in neither. Hypothesis tests run in
both, with more inputs in `make test-more`.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

# The beginning of an id -> what guards in `make test` meanwhile.
SLOW = {
    "tests/gp/test_areal.py::test_many_observations": "gradients of training there",
    "tests/gp/model/test_likelihoods.py::test_log_densities": "the densities of gp/likelihoods",
    "tests/gp/time/test_conveniences.py::test_sensors_in": "other orders, tests/gp/test_matrix.py",
    "docs/tutorials/": "the examples of README and of the docstrings, which make the same calls",
    "tests/cli/test_cli_page.py::test_commands_of_the_page": "commands, test_cli_commands.py",
    "tests/cli/test_demo.py::test_models_are": "the same calls, test_cli_commands.py",
    "tests/cli/test_demo.py::test_the_page_is_whole": "the same calls, test_cli_commands.py",
    "tests/gp/hyperparameters/test_explore_latent.py::test_averages_by": "other averages there",
    "tests/gp/model/test_likelihoods.py::test_the_field_is_recovered": "posteriors there",
    "tests/gp/test_calibration.py::test_deviations_that_take": "smaller faults there",
    "tests/gp/test_classification.py::test_integrated": "probabilities beside dense algebra there",
    "tests/gp/test_honest_intervals.py::test_blocks_are_not_led": "tests/gp/hyperparameters",
    "tests/gp/test_honest_intervals.py::test_what_varies": "those of twenty observations",
    "tests/gp/test_honest_intervals.py::test_noise_alone": "test_explore.py",
    "tests/gp/test_precision_regression.py::test_an_average": "products, test_series.py",
    "tests/gp/test_regression.py::test_hyperparameters_of_a_draw": "likelihoods and slopes",
    "tests/gp/test_scikit_learn.py::test_importing": "imports, tests/cli/test_shell.py",
    "tests/gp/time/test_gaps.py::test_hyperparameters_with_gaps": "solves with gaps there",
    "tests/gp/time/test_learned.py::test_a_fit_learns": "test_regression.py there",
    "tests/package/test_gpu_check.py::test_a_part_that_hangs": "bits that differ fail there",
    "tests/cli/test_cli_process.py::test_output_that_nobody_reads": "the other commands there",
    "tests/distributed/test_faults.py::test_workers_killed": "blocks of workers that are gone",
    "tests/examples/": "the examples of README and docs, which make the same calls",
    "tests/faults/test_killed.py": "writers killed at any moment, tests/graph/test_mapped.py",
    "tests/faults/test_resume.py::test_a_killed_process": "blocks that are missing or damaged",
    "tests/fuzz/test_edge_lists.py::test_the_fuzzers_reach": "the fuzzers themselves",
    "tests/gp/test_honest_intervals.py::test_hyperparameters_drawn": "those of twenty observations",
    "tests/gp/test_scikit_learn.py::test_progress": "tests/_base/test_progress.py",
    "tests/gp/torch/test_device.py::test_training_prediction_and_draws_send": "the series there",
    "tests/load/test_concurrency.py::test_children_of_a_process": "forks of a busy parent",
    "tests/load/test_concurrency.py::test_loader_workers": "forks of a busy parent",
    "tests/load/test_concurrency.py::test_many_calls": "threads that share all objects",
    "tests/load/test_concurrency.py::test_names_are_imported": "tests/package/test_package.py",
    "tests/load/test_concurrency.py::test_two_clients": "threads that share all objects",
    "tests/load/test_index_width.py::test_walks_along_edges_behind": "64-bit indices there",
    "tests/load/test_index_width.py::test_walks_of_the_last": "64-bit indices there",
    "tests/load/test_memory_limits.py": "refusals, tests/load/test_memory_doors.py",
    "tests/load/test_memory_estimates.py": "refusals, tests/load/test_memory_doors.py",
    "tests/numerics/test_extreme_pagerank.py::test_iteration_that_might_need": "its bounds",
    "tests/pagerank/walks/test_loops.py::test_sweeps_and_lists": "counts, test_torch_pooled.py",
    "tests/pagerank/walks/test_torch_pooled.py::test_pools_on_another_device": "counts on the CPU",
    "tests/sampling/test_device.py::test_records_that_grow": "features on another device",
    "tests/sampling/test_device.py::test_what_leaves": "features on another device",
    "tests/sampling/test_products.py::test_the_unbiasedness_test_notices": "tests/statistics",
    "tests/pyg/test_transforms.py::test_return_probabilities": "rows of the diffusion are unbiased",
    "tests/support/test_sequential.py::test_a_session_fails": "a session that passes there",
    "tests/support/test_sequential.py::test_far_tails": "p-values of skewed draws",
    "tests/pagerank/test_estimates.py::test_pooled_beats": "intervals cover at their rate there",
    "tests/package/test_scale.py::test_a_million": "refusals, tests/load/test_memory_doors.py",
    "tests/gp/time/test_regression.py::test_large_graphs": "means, test_exactness.py",
    "tests/distributed/test_client.py::test_features_are_copied": "test_shared_object.py there",
    "tests/fuzz/test_foreign_files.py::test_members_that": "archives that unpack to too much",
    "tests/datasets/test_datasets.py::test_self_loops": "the published counts there",
    "tests/sampling/walks/test_torch_walks.py::test_blocks_cut": "features on another device",
    "tests/gp/hyperparameters/test_explore_latent.py::test_points_have": "test_explore.py",
    "tests/gp/hyperparameters/test_sampled_rows.py::test_rows_do_not": "ends of lengthscales there",
    "tests/gp/space/test_regression_along_edges.py::test_default": "draws have their law",
}

# The beginning of a function's id -> how many of its
# cases, which are of one kind, `make test` runs.
GRIDS = {
    "tests/gp/test_matrix.py::test_ordinary_samples": 2,
    "tests/distributed/test_factor.py::test_columns_beside": 1,
    "tests/gp/test_classification.py::test_files_keep": 1,
    "tests/gp/test_matrix.py::test_values_in_another_order": 2,
    "tests/gp/model/test_likelihoods.py::test_all_methods": 2,
    "tests/gp/test_honest_intervals.py::test_a_deviation_is": 1,
    "tests/gp/test_half_smoothness.py::test_terms_of_nodes": 1,
    "tests/gp/test_classification_precision.py::test_probabilities_are_those": 1,
    "tests/gp/test_covariates.py::test_they_are_the_covariates": 2,
    "tests/cli/test_cli_errors.py::test_bad_input_is_told": 24,
    "tests/cli/test_cli_process.py::test_examples_of_the_help": 3,
    "tests/datasets/test_datasets.py::test_graphs_load_with_their_published_counts": 4,
    "tests/distributed/test_factor.py::test_products_are_those": 1,
    "tests/distributed/test_pagerank.py::test_rows_are_those_of_one_process": 1,
    "tests/euclidean/frequencies/test_copula.py::test_learning_lowers": 1,
    "tests/euclidean/frequencies/test_frequencies.py::test_projection_is_the_product": 4,
    "tests/euclidean/test_estimators.py::test_checks_of_scikit_learn": 60,
    "tests/faults/test_publishers.py::test_a_publisher_who_fails": 2,
    "tests/features/test_panel_products.py::test_products_are_those_of_the_matrix": 1,
    "tests/gp/test_bad_input.py::test_y_of_any_kind_of_number": 1,
    "tests/gp/test_calibration.py::test_deviations_a_fifth_too_small_are": 1,
    "tests/gp/test_calibration.py::test_draws_that_forget_the_noise_are": 1,
    "tests/gp/test_calibration.py::test_truths_rank_uniformly_among_draws_and": 1,
    "tests/gp/test_classification.py::test_probabilities_are_those_of_dense_algebra": 2,
    "tests/gp/test_defaults.py::test_held_out_nodes_are_predicted_better": 1,
    "tests/gp/test_regression.py::test_inexact_solves_never_make_variances_too": 1,
    "tests/gp/files/test_saved.py::test_predictions_after_loading_are_those_before": 2,
    "tests/gp/torch/test_operator.py::test_gradients_agree": 2,
    "tests/gp/torch/test_torch_draws.py::test_rounds_that_lead_away_are_not": 1,
    "tests/couplings/test_matching.py::test_the_density_of_states_integrates_functions": 1,
    "tests/couplings/test_pagerank_cost.py::test_the_estimator_has_the_predicted_mean": 1,
    "tests/numerics/test_extreme_kernels.py::test_every_kernel_is_sound": 4,
    "tests/numerics/test_extreme_posteriors.py::test_classes_have": 1,
    "tests/numerics/test_extreme_powers.py::test_powers_are_within": 4,
    "tests/pagerank/test_estimates.py::test_intervals_cover_at_their_rate": 2,
    "tests/pagerank/test_unbiased.py::test_ignored_weights": 2,
    "tests/pagerank/test_unbiased.py::test_unweighted_graph": 3,
    "tests/pagerank/walks/test_loops.py::test_walkers_are_dealt": 2,
    "tests/pagerank/walks/test_torch_pooled.py::test_blocks_in_chunks_of_nodes_do": 1,
    "tests/sampling/powers/test_torch_powers.py::test_a_block_takes": 1,
    "tests/sampling/test_device.py::test_on_another_device": 2,
    "tests/sampling/test_device.py::test_what_exceeds_the_memory_limit": 1,
    "tests/sampling/test_products.py::test_a_product_and_the_gram_matrix": 1,
    "tests/sampling/walks/test_auto_lengths.py::test_the_pilot": 1,
    "tests/sampling/walks/test_auto_lengths.py::test_the_table_is": 2,
    "tests/sampling/walks/test_torch_walks.py::test_the_memory_foreseen_is_what_is": 4,
    "tests/statistics/test_pagerank_errors.py::test_intervals_hold_the_truth_as_often": 1,
    "tests/statistics/test_pagerank_errors.py::test_standard_errors_that_are_half_or": 2,
    "tests/statistics/test_unbiased_grid.py::test_rows_and_gram": 6,
    "tests/gp/files/test_saved.py::test_files_that_contradict": 5,
    "tests/gp/test_bad_input.py::test_units_of_y": 1,
    "tests/gp/test_precision_regression.py::test_what_is_fixed": 1,
    "tests/gp/time/test_exactness.py::test_draws_have": 1,
    "tests/pagerank/test_unbiased.py::test_undirected_weighted": 2,
    "tests/sampling/powers/test_torch_powers.py::test_the_record_is": 3,
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what `make test` leaves out."""
    mark, slow = pytest.mark.more, tuple(SLOW)
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("full") or item.get_closest_marker("more"):
            continue
        if item.nodeid.startswith(slow):
            item.add_marker(mark)
        else:
            cases[item.nodeid.split("[")[0]].append(item)
    for name, group in cases.items():
        again = said_again(group)
        left = [item for item in group if item not in again]
        most = next(
            (most for beginning, most in GRIDS.items() if name.startswith(beginning)), len(left)
        )
        for item in (*again, *left[most:]):
            item.add_marker(mark)
        kept = left[:most]
        kept[zlib.crc32(name.encode()) % len(kept)].add_marker(pytest.mark.one)


def said_again(cases: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Cases of one function not needed to have each value of each parameter once."""
    values = {case: set(map(_value, _parameters(case).items())) for case in cases}
    seen: set[tuple[Any, ...]] = set()
    rest = list(values)
    # Cases with the most new values come first.
    for most in range(max(map(len, values.values()), default=0), 0, -1):
        for case in rest:
            if len(values[case] - seen) >= most:
                seen |= values[case]
                rest = [other for other in rest if other is not case]
    return [case for case in rest if values[case]]


def _parameters(case: pytest.Item) -> Mapping[str, Any]:
    return case.callspec.params if hasattr(case, "callspec") else {}


def _value(parameter: tuple[str, Any]) -> tuple[Any, ...]:
    """Equal where a parameter has the same plain value, or is the same object."""
    name, value = parameter
    plain = value is None or isinstance(value, bool | int | float | str)
    return (name, type(value), value if plain else id(value))
