//! Operands of programs: views as data, and what is refused of them.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::words::{Encode, Names, Scope, number};
use crate::dtype::DType;
use crate::storage::{Buffer, Storage};
use crate::view::{Dynamic, ScalarIndex, View};

/// Axes of a view.
const MOST_AXES: usize = 8;
/// Strides, offsets and bounds stay far from where sums of them would wrap.
const MOST: i64 = 1 << 48;

/// The words for a view: its tensor's name if it is the whole of it.
pub(super) fn encode(view: &View, names: &mut dyn Names) -> Encode {
    let tensor = names.tensor(&view.storage)?;
    let whole = View::whole(Arc::clone(&view.storage));
    let same = (&view.shape, &view.strides, view.offset, view.dtype) == (&whole.shape, &whole.strides, 0, whole.dtype);
    if same && view.dynamic.is_none() {
        return Ok(Value::String(tensor));
    }
    encode_parts(tensor, view, names)
}

/// The words for a view where a plain text would mean something else.
pub(super) fn encode_long(view: &View, names: &mut dyn Names) -> Encode {
    let tensor = names.tensor(&view.storage)?;
    encode_parts(tensor, view, names)
}

fn encode_parts(tensor: String, view: &View, names: &mut dyn Names) -> Encode {
    let mut map = Map::new();
    map.insert("tensor".into(), tensor.into());
    map.insert("shape".into(), json!(&view.shape[..]));
    map.insert("strides".into(), json!(&view.strides[..]));
    map.insert("offset".into(), view.offset.into());
    map.insert("dtype".into(), view.dtype.name().into());
    if let Some(dynamic) = &view.dynamic {
        map.insert("dynamic".into(), encode_dynamic(dynamic, names)?);
    }
    Ok(Value::Object(map))
}

fn encode_dynamic(dynamic: &Dynamic, names: &mut dyn Names) -> Encode {
    Ok(match dynamic {
        Dynamic::Scalar { index: ScalarIndex::Register(register), stride, bound } => {
            json!({"register": names.register(register)?, "stride": stride, "bound": bound})
        }
        Dynamic::Scalar { index: ScalarIndex::Element(view), stride, bound } => {
            json!({"element": encode(view, names)?, "stride": stride, "bound": bound})
        }
        Dynamic::Rows { index, stride, bound } => {
            json!({"rows": encode(index, names)?, "stride": stride, "bound": bound})
        }
        Dynamic::Columns { index, bound } => json!({"columns": encode(index, names)?, "bound": bound}),
    })
}

/// The view that words stand for, all of whose elements lie in its tensor.
pub(super) fn decode(value: &Value, scope: &Scope<'_>) -> Result<View, String> {
    decode_at(value, scope, true)
}

fn decode_at(value: &Value, scope: &Scope<'_>, may_be_dynamic: bool) -> Result<View, String> {
    let map = match value {
        Value::String(name) => return Ok(View::whole(Arc::clone(scope.tensor(name)?))),
        Value::Object(map) => map,
        other => {
            return Err(format!("is {other}; allowed: a tensor's name, or an object with tensor, shape, strides ..."));
        }
    };
    let known = ["tensor", "shape", "strides", "offset", "dtype", "dynamic"];
    if let Some(key) = map.keys().find(|key| !known.contains(&key.as_str())) {
        return Err(format!("has {key:?}; a view has {}", known.join(", ")));
    }
    let name = map.get("tensor").and_then(Value::as_str).ok_or("tensor is no text; the name of a tensor is needed")?;
    let mut view = View::whole(Arc::clone(scope.tensor(name)?));
    if let Some(dtype) = map.get("dtype") {
        let text = dtype.as_str().ok_or("dtype is no text")?;
        view.dtype = text.parse::<DType>().map_err(|error| error.to_string())?;
    }
    if let Some(shape) = map.get("shape") {
        view.shape = list(shape, "shape", 1)?.into_iter().map(|length| length as usize).collect();
        view.strides = list(map.get("strides").ok_or("strides are missing, shape is there")?, "strides", 0)?.into();
    } else if map.contains_key("strides") || view.dtype.size() != view.storage.dtype.size() {
        return Err("shape is missing; strides, and a dtype of another size, need one".to_owned());
    }
    if let Some(offset) = map.get("offset") {
        view.offset = number(offset, "offset", 0, MOST)?;
    }
    if let Some(dynamic) = map.get("dynamic") {
        if !may_be_dynamic {
            return Err("dynamic: an index is itself at a dynamic address; its place must be known".to_owned());
        }
        view.dynamic = Some(Arc::new(decode_dynamic(dynamic, scope)?));
    }
    check(&view, scope.elements)?;
    Ok(view)
}

fn list(value: &Value, what: &str, least: i64) -> Result<Vec<i64>, String> {
    let items = value.as_array().ok_or_else(|| format!("{what} is no list"))?;
    if items.len() > MOST_AXES {
        return Err(format!("{what} has {} entries; at most {MOST_AXES}", items.len()));
    }
    items.iter().map(|item| number(item, what, least, MOST)).collect()
}

fn decode_dynamic(value: &Value, scope: &Scope<'_>) -> Result<Dynamic, String> {
    let map = value.as_object().ok_or("dynamic is no object")?;
    let known = ["register", "element", "rows", "columns", "stride", "bound"];
    if let Some(key) = map.keys().find(|key| !known.contains(&key.as_str())) {
        return Err(format!("dynamic has {key:?}; allowed: {}", known.join(", ")));
    }
    let entry = |key: &str| map.get(key).ok_or_else(|| format!("dynamic: {key} is missing"));
    let bound = number(entry("bound")?, "dynamic: bound", 0, MOST)? as usize;
    let stride = || number(entry("stride")?, "dynamic: stride", 0, MOST);
    let index = |value: &Value| {
        let view = decode_at(value, scope, false).map_err(|text| format!("dynamic: index {text}"))?;
        if view.storage.buffer != Buffer::Sbuf || !matches!(view.dtype, DType::Int32 | DType::UInt32) {
            let (dtype, buffer) = (view.dtype, view.storage.buffer);
            return Err(format!("dynamic: index is {dtype} in {buffer}; int32 or uint32 in sbuf is needed"));
        }
        Ok(view)
    };
    match (map.get("register"), map.get("element"), map.get("rows"), map.get("columns")) {
        (Some(register), None, None, None) => {
            let index = ScalarIndex::Register(Arc::clone(scope.register(register)?));
            Ok(Dynamic::Scalar { index, stride: stride()?, bound })
        }
        (None, Some(element), None, None) => {
            let view = index(element)?;
            if view.len() != 1 {
                return Err(format!("dynamic: element has shape {:?}; one element is needed", &view.shape[..]));
            }
            Ok(Dynamic::Scalar { index: ScalarIndex::Element(view), stride: stride()?, bound })
        }
        (None, None, Some(rows), None) => Ok(Dynamic::Rows { index: index(rows)?, stride: stride()?, bound }),
        (None, None, None, Some(columns)) => Ok(Dynamic::Columns { index: index(columns)?, bound }),
        _ => Err("dynamic needs one of register, element, rows and columns".to_owned()),
    }
}

/// Refuses views whose elements do not all lie in their tensor, whatever register or index says within its bound.
fn check(view: &View, most: usize) -> Result<(), String> {
    let storage = &*view.storage;
    if view.shape.len() != view.strides.len() {
        return Err(format!("has {} lengths and {} strides", view.shape.len(), view.strides.len()));
    }
    let least = if view.is_on_chip() { 2 } else { 1 };
    if view.shape.len() < least {
        return Err(format!("has {} axes; in {} at least {least}", view.shape.len(), storage.buffer));
    }
    let elements = view.shape.iter().try_fold(1usize, |all, &length| all.checked_mul(length));
    if elements.is_none_or(|all| all > most) {
        return Err(format!("shape {:?} has more than {most} elements", &view.shape[..]));
    }
    let size = view.dtype.size();
    if !storage.free_bytes().is_multiple_of(size) {
        return Err(format!("{} bytes are no whole number of {}", storage.free_bytes(), view.dtype));
    }
    let free = (storage.free_bytes() / size) as i128;
    let span = |from: usize| -> i128 {
        let axes = view.shape.iter().zip(&view.strides).skip(from);
        axes.map(|(&length, &stride)| (length as i128 - 1) * i128::from(stride)).sum()
    };
    let outside = |what: &str, last: i128, count: i128| {
        Err(format!("reaches {what} {last} of tensor {:?}, which has {count}", storage.name))
    };
    if !view.is_on_chip() {
        let shift = dynamic_span(view);
        let from = usize::from(matches!(view.dynamic.as_deref(), Some(Dynamic::Rows { .. })));
        let last = i128::from(view.offset) + span(from) + shift;
        return if last >= free { outside("element", last, free) } else { check_kind(view, storage) };
    }
    let (partition, element) = (i128::from(view.offset) / free, i128::from(view.offset) % free);
    let (rows, stride) = (view.shape[0] as i128, i128::from(view.strides[0]));
    if rows > 1 && (stride % free != 0) {
        return Err(format!(
            "the first stride is {stride}; a multiple of the {free} elements of a partition is needed"
        ));
    }
    let partitions = storage.place.map_or(0, |place| place.partitions as i128);
    let shift = dynamic_span(view);
    let by_partition = shift != 0 && shift % free == 0 && element + span(1) + shift >= free;
    let (down, along) = if by_partition { (shift / free, 0) } else { (0, shift) };
    let last = partition + if rows > 1 { (rows - 1) * (stride / free) } else { 0 } + down;
    if last >= partitions {
        return outside("partition", last, partitions);
    }
    let last = element + span(1) + along;
    if last >= free { outside("element", last, free) } else { check_kind(view, storage) }
}

/// How far a dynamic start reaches.
fn dynamic_span(view: &View) -> i128 {
    match view.dynamic.as_deref() {
        Some(Dynamic::Scalar { stride, bound, .. } | Dynamic::Rows { stride, bound, .. }) => {
            i128::from(*stride) * (*bound as i128 - 1).max(0)
        }
        _ => 0,
    }
}

/// Rows are picked in HBM, columns on chip.
fn check_kind(view: &View, storage: &Storage) -> Result<(), String> {
    match view.dynamic.as_deref() {
        Some(Dynamic::Rows { .. }) if view.is_on_chip() => Err("dynamic: rows are picked in HBM only".to_owned()),
        Some(Dynamic::Rows { index, .. }) if index.len() != view.shape[0] => {
            Err(format!("dynamic: {} rows are picked for a first axis of {}", index.len(), view.shape[0]))
        }
        Some(Dynamic::Columns { .. }) if !view.is_on_chip() => {
            Err("dynamic: columns are picked on chip only".to_owned())
        }
        Some(Dynamic::Columns { bound, .. }) if *bound > storage.free_elements() * storage.dtype.size() => {
            Err(format!("dynamic: bound is {bound}; a partition has fewer elements"))
        }
        _ => Ok(()),
    }
}
