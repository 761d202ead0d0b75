"""What the hardware's front end accepts beyond its names, and the tests that run it.

They run under each release: no release note names a change of these **(choice)**.
"""

from __future__ import annotations

from typing import Final

_ACCEPTED: Final = "nki/language/test_accepted.py"
_ENDS: Final = "nki/language/test_last_elements.py"
_OBJECTS: Final = "nki/values/test_objects.py"

#: By what a kernel may do: the file of tests, and the tests' names in it.
BEHAVIOURS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "Objects of configuration take by keyword what their class body names, `@dataclass` or not": (
        _OBJECTS,
        (
            "test_dataclasses_take_what_their_body_names",
            "test_plain_subclasses_take_what_their_body_names",
            "test_subclasses_of_dataclasses_without_the_decorator",
        ),
    ),
    "A field that is not given and has no default is unset; `__post_init__` runs": (
        _OBJECTS,
        ("test_fields_of_dataclasses_that_are_not_given_are_unset", "test_post_init_is_called"),
    ),
    "The truth of a tensor is that there is one": (_ACCEPTED, ("test_tensors_are_true",)),
    "Empty slices are views; instructions on them do nothing and take no time": (
        _ACCEPTED,
        (
            "test_empty_slices_are_views_and_nothing_is_done_on_them",
            "test_empty_slices_take_no_time_and_are_not_recorded",
        ),
    ),
    "`base_tensor` of a view, `.reshape(shape=)`": (
        _ACCEPTED,
        ("test_views_know_the_tensor_they_were_made_from", "test_reshape_by_keyword"),
    ),
    "Reductions over any free axes, adjacent or not": (
        _ACCEPTED,
        (
            "test_reductions_over_any_free_axes",
            "test_reductions_over_any_free_axes_are_one_instruction",
            "test_softmax_over_an_axis_in_the_middle",
        ),
    ),
    "A broadcast read of PSUM counts the bytes that it touches": (
        _ACCEPTED,
        ("test_repeated_elements_of_psum_count_once",),
    ),
    "`scalar_tensor_tensor` and its like take scalars in bfloat16": (
        _ACCEPTED,
        ("test_scalars_of_bfloat16_are_widened",),
    ),
    "`dma_copy(oob_mode=skip)` at static addresses": (
        _ACCEPTED,
        ("test_nothing_is_skipped_at_static_addresses",),
    ),
    "`nc_matmul_mx` of 32 partitions takes larger scale tiles": (
        _ACCEPTED,
        ("test_products_of_one_quadrant_take_larger_scale_tiles",),
    ),
    "Rows between a quadrant's scales that nothing wrote are read as 0": (
        _ACCEPTED,
        ("test_rows_between_scales_are_read_as_zero",),
    ),
    "Bounds are where the last step lands, not `start + step * count`": (
        _ENDS,
        (
            "test_slices_reach_the_last_element",
            "test_patterns_end_at_the_last_element",
            "test_a_dynamic_offset_may_reach_the_last_element",
            "test_what_counts_is_where_the_last_step_lands",
        ),
    ),
    "Documented parameters: `broadcast_to(dtype=)`, `gather_flattened(axis=)`, "
    "`while_loop(init=)`, `vector_select(vector_offset=)`, `rank_id(name=)`, addresses by name": (
        _ACCEPTED,
        (
            "test_broadcast_to_casts",
            "test_gather_flattened_takes_the_axis_third",
            "test_while_loop_takes_its_condition_by_either_name",
            "test_vector_select_by_the_documented_name",
            "test_ranks_take_names",
            "test_addresses_by_keyword",
        ),
    ),
    "`nl.DType`, `nl._TileSize`, specs of shape and type where only time is asked": (
        _ACCEPTED,
        ("test_names_of_the_documentation", "test_specs_stand_for_arrays_where_time_is_asked"),
    ),
}
