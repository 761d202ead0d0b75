//! How much a replica has room for: keys and values beside weights and all else.

use crate::memory::{Category, kv_bytes_per_sequence, weight_bytes as of_rank};
use crate::{Layout, Planner, Workload};

/// Tokens whose keys and values a replica holds while it serves up to `most.batch` sequences of up to `most.input` tokens.
///
/// A token counts as its share of the longest sequence: layers with a window keep less of that **(choice)**.
pub(super) fn tokens(planner: &Planner<'_>, layout: &Layout, most: Workload) -> f64 {
    let table = planner.memory(layout, most);
    let kept = table.rows.iter().find(|row| row.category == Category::KvCache.name());
    let sharing = f64::from(table.ranks_per_bank);
    let others = table.used - kept.map_or(0.0, |row| row.per_bank);
    let of_rank = (table.bank - others).max(0.0) / sharing;
    of_rank / of_token(planner, layout, most.input as f64) * layout.split.dp as f64
}

/// Bytes of keys and values of a token on one rank, those of a model that guesses included.
fn of_token(planner: &Planner<'_>, layout: &Layout, context: f64) -> f64 {
    let settings = planner.settings();
    let draft = settings.speculation.as_ref().and_then(|speculation| speculation.draft.as_ref());
    let models = [Some(planner.model()), draft].into_iter().flatten();
    models.map(|model| kv_bytes_per_sequence(model, &settings.precision, &layout.split, context)).sum::<f64>() / context
}

/// Bytes of keys and values of a token on all ranks that keep it.
pub(super) fn bytes_of_token(planner: &Planner<'_>, layout: &Layout, context: f64) -> f64 {
    let split = &layout.split;
    of_token(planner, layout, context) * (split.tp * split.cp * split.pp) as f64
}

/// Bytes of weights on all ranks of a replica.
pub(super) fn weight_bytes(planner: &Planner<'_>, layout: &Layout) -> f64 {
    of_rank(planner.model(), &planner.settings().precision, &layout.split) * layout.split.ranks() as f64
}
