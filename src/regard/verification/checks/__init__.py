"""The checks, one function each, from the most telling cause to the most general symptom."""

from regard.verification.checks.attention import (
    check_attention_rows,
    check_attention_scale,
    check_head_layout,
    check_mask_polarity,
)
from regard.verification.checks.cache import (
    check_cache_equals_full,
    check_cache_reorder,
    check_chunks_equal_steps,
    check_positions_under_cache,
)
from regard.verification.checks.causality import check_future_gradient, check_future_leak, check_prefix
from regard.verification.checks.dependence import (
    check_finite,
    check_history_used,
    check_logits,
    check_order_matters,
    check_runs,
    check_source_used,
)
from regard.verification.checks.loss import (
    check_label_shift,
    check_loss_average,
    check_loss_ignores_padding,
    check_loss_of_logits,
    check_smoothing_ignores_padding,
)
from regard.verification.checks.modes import (
    check_dropout_in_training,
    check_eval_deterministic,
    check_export,
    check_half_precision,
    check_paths_agree,
    check_stateless,
)
from regard.verification.checks.padding import (
    check_batch_mates,
    check_empty_row,
    check_padded_width,
    check_source_padding,
    check_target_padding,
)
from regard.verification.checks.parameters import (
    check_gradients,
    check_layers_distinct,
    check_registered,
    check_save_load,
    check_tied_weights,
)
from regard.verification.checks.positions import (
    check_positions_in_half,
    check_positions_under_padding,
    check_relative_positions,
)
from regard.verification.checks.structure import check_activation, check_position_wise, check_residual
from regard.verification.findings import Check

CHECKS: tuple[Check, ...] = (
    check_runs,
    check_registered,
    check_eval_deterministic,
    check_stateless,
    check_finite,
    check_logits,
    check_tied_weights,
    check_layers_distinct,
    check_head_layout,
    check_position_wise,
    check_mask_polarity,
    check_attention_rows,
    check_attention_scale,
    check_residual,
    check_activation,
    check_order_matters,
    check_relative_positions,
    check_positions_under_padding,
    check_positions_under_cache,
    check_future_leak,
    check_future_gradient,
    check_prefix,
    check_batch_mates,
    check_source_padding,
    check_target_padding,
    check_padded_width,
    check_empty_row,
    check_source_used,
    check_history_used,
    check_cache_equals_full,
    check_chunks_equal_steps,
    check_cache_reorder,
    check_gradients,
    check_save_load,
    check_dropout_in_training,
    check_paths_agree,
    check_half_precision,
    check_positions_in_half,
    check_export,
    check_loss_of_logits,
    check_label_shift,
    check_smoothing_ignores_padding,
    check_loss_average,
    check_loss_ignores_padding,
)
"""All of them, in the order of a report."""
