//! What a plan takes for granted, in words.

use super::communication::Communication;
use super::constants::Constants;
use super::dtype::DataType;
use super::hardware::Chip;
use super::settings::{Calibration, MemoryRate, ServingSettings};

/// Every number that no page documents, as sentences.
pub(super) fn described(
    chip: &Chip,
    has_experts: bool,
    settings: &ServingSettings,
    constants: &Constants,
    communication: &dyn Communication,
) -> Vec<String> {
    let Constants { layer_overhead, layer_overhead_counted, half_rate_width, norm_passes, .. } = *constants;
    let mut said = Vec::new();
    if chip.fp8_is_assumed && settings.precision.uses(DataType::Fp8) {
        said.push(format!("{}: plain FP8 multiplies at the BF16 rate (no other is published)", chip.title));
    }
    match (settings.layer_overhead, settings.calibration) {
        (Some(seconds), _) => said.push(format!("layer overhead: {:.0} us, as given", seconds * 1e6)),
        (None, Calibration::Peak) => said.push("no overheads: peaks of array and memory alone".to_owned()),
        (None, Calibration::Fitted) => said.push(format!(
            "layer overhead: {:.0} us a layer, {:.0} us of them collectives, keys and values, counted apart; fitted to \
             Llama 70B and 405B on trn2.48xlarge (TP 64, batch 1){}",
            layer_overhead * 1e6,
            layer_overhead_counted * 1e6,
            if chip.like() == "trainium2" { String::new() } else { format!("; on {} it is an assumption", chip.title) }
        )),
    }
    if settings.calibration == Calibration::Fitted {
        said.push(format!(
            "products run at w / (w + {half_rate_width:.0}) of the array's peak, w the width of a rank's \
             feed-forward shard; fitted to the times to the first token of the same two models{}",
            if chip.like() == "trainium2" { "" } else { ", elsewhere an assumption" }
        ));
    }
    let streams = match (settings.memory_rate, chip.dma_rate < chip.hbm_rate) {
        (MemoryRate::Peak, _) => format!("{:.2} TB/s a chip, the peak of its memory", chip.hbm_rate / 1e12),
        (_, true) => format!(
            "{:.2} TB/s a chip, what its DMA engines move (its memory's peak is {:.2})",
            chip.dma_rate / 1e12,
            chip.hbm_rate / 1e12
        ),
        (_, false) => format!("{:.2} TB/s a chip, the peak of its memory", chip.hbm_rate / 1e12),
    };
    said.push(format!("weights stream at {streams}; compute and traffic of one operation overlap fully (choice)"));
    said.push(format!("norms and residuals pass {norm_passes:.0} activations a layer through memory (choice)"));
    if has_experts {
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
                "speculation: one guess takes {:.0} percent of a step of the model (given)",
                speculation.draft_share * 100.0
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
