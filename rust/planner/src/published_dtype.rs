//! The format that a configuration says its weights are published in.

use serde_json::{Map, Value};

use super::dtype::DataType;

/// How much of a value that is not understood is repeated.
const SHOWN: usize = 200;

/// The format that weights are published in, if a configuration says one; as an error what it says that is no format that
/// is understood.
pub(super) fn published(map: &Map<String, Value>) -> Result<Option<DataType>, String> {
    let given = |key: &&str| map.get(*key).is_some_and(|value| !value.is_null());
    let Some(key) = ["quantization_config", "torch_dtype", "dtype"].into_iter().find(given) else { return Ok(None) };
    let said = &map[key];
    // Quantized, they are as the method says, whatever type computes.
    let named = said.get("quant_method").unwrap_or(said);
    match named.as_str().and_then(|name| DataType::parse(name).ok()) {
        Some(known) => Ok(Some(known)),
        None => {
            let bits = said.get("bits").map(|bits| format!(" of {} bits", shown(bits))).unwrap_or_default();
            Err(format!("{key} is {}{bits}", shown(named)))
        }
    }
}

/// A value as messages repeat it.
pub(super) fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}
