//! What a plan takes for granted, in words.

use super::communication::Communication;
use super::constants::Constants;
use super::dtype::DataType;
use super::hardware::{Chip, Rank};
use super::recipe::ServingRecipe;
use super::settings::{Calibration, ServingSettings};
use super::shapes::Model;

/// Every number that no page documents, as sentences.
pub(super) fn described(
    chip: &Chip,
    rank: &Rank,
    model: &Model,
    recipe: &ServingRecipe,
    settings: &ServingSettings,
    constants: &Constants,
    communication: &dyn Communication,
) -> Vec<String> {
    let mut said = Vec::new();
    if chip.fp8_is_assumed && settings.precision.uses(DataType::Fp8) {
        said.push(format!("{}: plain FP8 multiplies at the BF16 rate (no other is published)", chip.title));
    }
    said.extend(of_recipe(recipe, settings));
    let streams = if rank.memory_rate < rank.hbm_rate {
        format!(
            "{:.2} TB/s a chip, what its DMA engines move (its memory's peak is {:.2})",
            chip.dma_rate / 1e12,
            chip.hbm_rate / 1e12
        )
    } else {
        format!("{:.2} TB/s a chip, the peak of its memory", chip.hbm_rate / 1e12)
    };
    said.push(format!("weights stream at {streams}; compute and traffic of one operation overlap fully (choice)"));
    said.push(format!(
        "norms and residuals pass {:.0} activations a layer through memory (choice)",
        recipe.norm_passes
    ));
    if model.experts.is_some() {
        said.push("the router picks experts evenly and independently (choice)".to_owned());
    }
    let Constants { code, collectives_buffer, prefill_chunk, .. } = *constants;
    said.push(format!(
        "memory: {:.0} MB of instructions and {:.0} MB of collectives buffers a logical core, scratch memory for \
         {prefill_chunk:.0} tokens of a prompt at a time (choices)",
        code / 1e6,
        collectives_buffer / 1e6
    ));
    said.push("time to the first token: no queue, prompts of one replica one after the other".to_owned());
    if let Some(speculation) = &settings.speculation {
        said.push(format!(
            "speculation: {} of {} guessed tokens and the next one make {:.2} tokens a step on average (given)",
            speculation.accepted - 1.0,
            speculation.length,
            speculation.accepted
        ));
        if speculation.draft.is_none() {
            said.push(format!(
                "speculation: one guess takes {:.0} percent of a step of the model (given), the overhead of one layer, and \
                 {:.1} ms to start, as a program of its own; a draft model given by name runs in the step's program",
                speculation.draft_share * 100.0,
                recipe.guess_start * 1e3
            ));
        }
    }
    if !settings.kernel_times.is_empty() {
        said.push(format!(
            "{} operations have times measured on the simulated core instead of the roofline's",
            settings.kernel_times.len()
        ));
    }
    said.extend(communication.assumptions());
    said
}

/// What the serving stack adds, with what it rests on.
fn of_recipe(recipe: &ServingRecipe, settings: &ServingSettings) -> Vec<String> {
    let ServingRecipe { layer_overhead, layer_overhead_range: [low, high], prompt_layer_overhead, .. } = *recipe;
    let micro = |seconds: f64| seconds * 1e6;
    let given = settings.layer_overhead.map(|seconds| format!("layer overhead: {:.0} us, as given", micro(seconds)));
    if settings.calibration == Calibration::Peak {
        let peak = || "no overheads: peaks of array and memory alone".to_owned();
        return vec![given.unwrap_or_else(peak)];
    }
    let mut said = vec![recipe.basis.clone()];
    if recipe.name == "floor" {
        said.extend(given);
        return said;
    }
    said.push(given.unwrap_or_else(|| {
        format!(
            "layer overhead: {:.0} us a layer of decoding ({:.0} to {:.0}), {:.0} us a layer of a prompt, beside \
             operations and collectives",
            micro(layer_overhead),
            micro(low),
            micro(high),
            micro(prompt_layer_overhead)
        )
    }));
    if recipe.half_rate_width > 0.0 {
        said.push(format!(
            "products run at w / (w + {:.0}) of the array's peak, w the width of a rank's feed-forward shard, of experts \
             what a token passes",
            recipe.half_rate_width
        ));
    }
    if recipe.product_share < 1.0 {
        said.push(format!("products reach {:.0} percent of the page's peak", recipe.product_share * 100.0));
    }
    said.push(format!(
        "attention of prompts: {:.0} percent of the array's peak{}; keys and values are read at {:.0} percent of the rate \
         of memory",
        recipe.attention_share * 100.0,
        if recipe.score_time > 0.0 {
            format!(" and {:.2} ns a score on a core, as no kernel fuses it", recipe.score_time * 1e9)
        } else {
            String::new()
        },
        recipe.kv_share * 100.0
    ));
    said.push(format!("{:.0} ms from a request to its first operation", recipe.request_start * 1e3));
    if recipe.least_bucket > 1 {
        said.push(format!(
            "prompts run at the next compiled length: powers of two from {}, beyond {} multiples of {}",
            recipe.least_bucket,
            2 * recipe.bucket_step,
            recipe.bucket_step
        ));
    }
    if recipe.expert_block > 0.0 {
        said.push(format!(
            "experts compute at {:.0} percent of the rate of dense products, and of a prompt blocks of {:.0} tokens whole",
            recipe.expert_share * 100.0,
            recipe.expert_block
        ));
    }
    said
}
