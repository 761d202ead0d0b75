//! Published rates of training against the model's.

use super::{Recipe, Recompute, TrainingLayout, TrainingPlan, plan};
use crate::catalogue::built_in_model;
use crate::hardware::Machine;
use crate::published::PublishedRow;
use trn3_facts::Facts;
use trn3_system::Result;

/// Published rates of training on Trainium1, computed again; the first one is among the rows that `achieved_fraction`
/// was fitted to.
///
/// ```
/// let rows = trn3_planner::training::published().unwrap();
/// assert_eq!(rows.iter().filter(|row| row.fitted).count(), 1);
/// assert!(rows.iter().all(|row| (row.computed / row.published - 1.0).abs() < 0.12));
/// ```
///
/// # Errors
/// None in practice: the figures are part of the crate.
pub fn published() -> Result<Vec<PublishedRow>> {
    let facts = Facts::built_in("measured")?;
    let source = |key: &str| -> Result<String> {
        let quantity = facts.quantity(key)?;
        Ok(quantity.sources.first().map_or_else(String::new, |source| source.source.clone()))
    };
    let train = |model: &str, nodes: u32, batch: u64, sequence: u64, layout: TrainingLayout| -> Result<TrainingPlan> {
        let machine = Machine::built_in("trn1_32xlarge")?.cluster(nodes)?;
        plan(&built_in_model(model)?, &machine, &Recipe::new(batch, sequence), &layout)
    };
    let llama = TrainingLayout { tp: 32, zero: 1, ..TrainingLayout::one(1) };
    let bert = TrainingLayout { micro_batch: 16, recompute: Recompute::None, ..TrainingLayout::one(1) };
    let small = train("llama-3-8b", 32, 1024, 8192, TrainingLayout { dp: 32, ..llama })?;
    let large = train("llama-3.3-70b", 32, 1024, 8192, TrainingLayout { pp: 8, dp: 4, ..llama })?;
    let one = train("bert-large", 1, 16_384, 128, TrainingLayout { dp: 32, ..bert })?;
    let many = train("bert-large", 16, 1_048_576, 128, TrainingLayout { dp: 512, ..bert })?;
    let rate = facts.quantity("bert_large_ph1_trn1")?.number().unwrap_or_default();
    let scaling = facts.quantity("bert_scaling_16_nodes")?.number().unwrap_or_default();
    let row = |name, what: &str, published, computed, fitted, assumed: &str, source| PublishedRow {
        name,
        what: what.to_owned(),
        unit: "sequences/s".to_owned(),
        published,
        computed,
        fitted,
        assumed: assumed.to_owned(),
        source,
    };
    Ok(vec![
        row(
            "llama-8b-train-trn1",
            "Llama 3.1 8B, 512 Trainium1, TP 32, DP 32, ZeRO-1, 1,024 sequences of 8,192",
            facts.si("llama31_8b_train_trn1")?,
            small.sequences_per_second,
            true,
            "selective recomputation, sequence parallelism",
            source("llama31_8b_train_trn1")?,
        ),
        row(
            "llama-70b-train-trn1",
            "Llama 3.1 70B, 512 Trainium1, TP 32, PP 8, DP 4, sequences of 8,192",
            facts.si("llama31_70b_train_trn1")?,
            large.sequences_per_second,
            false,
            "global batch 1,024, ZeRO-1, selective recomputation, sequence parallelism, plain 1F1B",
            source("llama31_70b_train_trn1")?,
        ),
        row(
            "bert-large-trn1-1-node",
            "BERT-large phase 1, one trn1.32xlarge, DP 32, 16,384 sequences of 128",
            facts.si("bert_large_ph1_trn1_1_node")?,
            one.sequences_per_second,
            false,
            "micro-batches of 16, no recomputation, logits of every token",
            source("bert_large_ph1_trn1")?,
        ),
        row(
            "bert-large-trn1-16-nodes",
            "BERT-large phase 1, 16 trn1.32xlarge, DP 512, 1,048,576 sequences of 128",
            rate,
            many.sequences_per_second,
            false,
            "as on one node; 128 micro-batches of 16 hide the reduction",
            source("bert_large_ph1_trn1")?,
        ),
        PublishedRow {
            unit: "fraction".to_owned(),
            ..row(
                "bert-large-trn1-scaling",
                "BERT-large phase 1, rate of 16 nodes over 16 times the rate of one",
                scaling,
                many.sequences_per_second / 16.0 / one.sequences_per_second,
                false,
                "batch and optimizer of the two runs differ, so accumulation hides most of the reduction",
                source("bert_scaling_16_nodes")?,
            )
        },
    ])
}
