//! Arguments of instructions as data: each type's words, and what is refused of them.

use std::str::FromStr;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use smallvec::SmallVec;
use trn3_numerics::{Activation, Pattern};

use super::operands;
use super::words::{Encode, Field, Names, Scope};
use crate::engine::Engine;
use crate::isa::ScalarOperand;
use crate::isa::accumulate::{ReduceCommand, Reduction};
use crate::isa::alu::AluOp;
use crate::isa::dma::Options;
use crate::isa::gpsimd::affine::Affine;
use crate::isa::register::RegisterValue;
use crate::isa::select::CopySource;
use crate::isa::tensor::Tile;
use crate::memory::OutOfBounds;
use crate::timing::work::DescriptorMode;
use crate::view::{Register, View};

/// Entries of a list, other than axes.
const MOST_ENTRIES: usize = 1 << 16;

fn needed(value: Option<&Value>) -> Result<&Value, String> {
    value.filter(|value| !value.is_null()).ok_or_else(|| "is missing".to_owned())
}

fn word<T: FromStr>(value: Option<&Value>) -> Result<T, String>
where
    T::Err: ToString,
{
    let value = needed(value)?;
    value
        .as_str()
        .ok_or_else(|| format!("is {value}; a text is needed"))?
        .parse()
        .map_err(|error: T::Err| error.to_string())
}

fn items(value: &Value) -> Result<&[Value], String> {
    let items = value.as_array().ok_or_else(|| format!("is {value}; a list is needed"))?;
    if items.len() > MOST_ENTRIES {
        return Err(format!("has {} entries; at most {MOST_ENTRIES}", items.len()));
    }
    Ok(items)
}

/// The entries of an object whose keys are known.
fn entries<'a>(value: &'a Value, known: &[&str]) -> Result<&'a Map<String, Value>, String> {
    let map = value.as_object().ok_or_else(|| format!("is {value}; an object is needed"))?;
    match map.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => Err(format!("has {key:?}; allowed: {}", known.join(", "))),
        None => Ok(map),
    }
}

/// An entry of an object.
fn entry<T: Field>(map: &Map<String, Value>, key: &str, scope: &Scope<'_>) -> Result<T, String> {
    T::decode(map.get(key), scope).map_err(|text| format!("{key} {text}"))
}

macro_rules! by_name {
    ($($type:ty),*) => {$(
        impl Field for $type {
            fn encode(&self, _names: &mut dyn Names) -> Encode {
                Ok(self.to_string().into())
            }

            fn decode(value: Option<&Value>, _scope: &Scope<'_>) -> Result<Self, String> {
                word(value)
            }
        }
    )*};
}
by_name!(AluOp, Activation, ReduceCommand, Pattern);

impl Field for Engine {
    fn encode(&self, _names: &mut dyn Names) -> Encode {
        Ok(self.name().into())
    }

    fn decode(value: Option<&Value>, _scope: &Scope<'_>) -> Result<Self, String> {
        let value = needed(value)?;
        let found = Engine::ALL.into_iter().find(|engine| value.as_str() == Some(engine.name()));
        found.ok_or_else(|| format!("is {value}; allowed: {}", Engine::ALL.map(Engine::name).join(", ")))
    }
}

impl Field for bool {
    fn encode(&self, _names: &mut dyn Names) -> Encode {
        Ok((*self).into())
    }

    fn decode(value: Option<&Value>, _scope: &Scope<'_>) -> Result<Self, String> {
        match value {
            None => Ok(false),
            Some(value) => value.as_bool().ok_or_else(|| format!("is {value}; allowed: true, false")),
        }
    }
}

macro_rules! whole_numbers {
    ($($type:ty),*) => {$(
        impl Field for $type {
            fn encode(&self, _names: &mut dyn Names) -> Encode {
                Ok((*self).into())
            }

            fn decode(value: Option<&Value>, _scope: &Scope<'_>) -> Result<Self, String> {
                let value = needed(value)?;
                // Far enough from the ends of the type that sums do not wrap.
                let number = value.as_i64().filter(|number| number.unsigned_abs() <= 1 << 48);
                number.and_then(|number| <$type>::try_from(number).ok()).ok_or_else(|| {
                    format!("is {value}; a whole number of at most 48 bits is needed, as {} holds it", stringify!($type))
                })
            }
        }
    )*};
}
whole_numbers!(i64, usize, u8);

impl Field for f64 {
    fn encode(&self, _names: &mut dyn Names) -> Encode {
        Ok(match *self {
            value if value.is_finite() => json!(value),
            value if value.is_nan() => "nan".into(),
            value if value > 0.0 => "inf".into(),
            _ => "-inf".into(),
        })
    }

    fn decode(value: Option<&Value>, _scope: &Scope<'_>) -> Result<Self, String> {
        let value = needed(value)?;
        let refuse = || format!("is {value}; allowed: a number, \"inf\", \"-inf\", \"nan\"");
        match value.as_str() {
            None => value.as_f64().ok_or_else(refuse),
            Some("inf") => Ok(f64::INFINITY),
            Some("-inf") => Ok(f64::NEG_INFINITY),
            Some("nan") => Ok(f64::NAN),
            Some(_) => Err(refuse()),
        }
    }
}

impl<T: Field> Field for Option<T> {
    fn encode(&self, names: &mut dyn Names) -> Encode {
        self.as_ref().map_or(Ok(Value::Null), |value| value.encode(names))
    }

    fn decode(value: Option<&Value>, scope: &Scope<'_>) -> Result<Self, String> {
        value.filter(|value| !value.is_null()).map(|value| T::decode(Some(value), scope)).transpose()
    }
}

impl<T: Field> Field for Vec<T> {
    fn encode(&self, names: &mut dyn Names) -> Encode {
        self.iter().map(|item| item.encode(names)).collect()
    }

    fn decode(value: Option<&Value>, scope: &Scope<'_>) -> Result<Self, String> {
        let items = items(needed(value)?)?.iter().enumerate();
        items.map(|(at, item)| T::decode(Some(item), scope).map_err(|text| format!("[{at}] {text}"))).collect()
    }
}

impl Field for SmallVec<[i64; 4]> {
    fn encode(&self, _names: &mut dyn Names) -> Encode {
        Ok(json!(&self[..]))
    }

    fn decode(value: Option<&Value>, scope: &Scope<'_>) -> Result<Self, String> {
        Ok(Vec::decode(value, scope)?.into())
    }
}

impl<A: Field, B: Field> Field for (A, B) {
    fn encode(&self, names: &mut dyn Names) -> Encode {
        Ok(Value::Array(vec![self.0.encode(names)?, self.1.encode(names)?]))
    }

    fn decode(value: Option<&Value>, scope: &Scope<'_>) -> Result<Self, String> {
        match items(needed(value)?)? {
            [first, second] => Ok((A::decode(Some(first), scope)?, B::decode(Some(second), scope)?)),
            other => Err(format!("has {} entries; 2 are needed", other.len())),
        }
    }
}

impl Field for View {
    fn encode(&self, names: &mut dyn Names) -> Encode {
        operands::encode(self, names)
    }

    fn decode(value: Option<&Value>, scope: &Scope<'_>) -> Result<Self, String> {
        operands::decode(needed(value)?, scope)
    }
}

impl Field for ScalarOperand {
    fn encode(&self, names: &mut dyn Names) -> Encode {
        match self {
            ScalarOperand::None => Ok(Value::Null),
            ScalarOperand::Constant(value) => value.encode(names),
            ScalarOperand::Vector(view) => operands::encode_long(view, names),
        }
    }

    fn decode(value: Option<&Value>, scope: &Scope<'_>) -> Result<Self, String> {
        match value {
            None | Some(Value::Null) => Ok(ScalarOperand::None),
            Some(Value::Object(_)) => Ok(ScalarOperand::Vector(View::decode(value, scope)?)),
            Some(_) => Ok(ScalarOperand::Constant(f64::decode(value, scope)?)),
        }
    }
}

impl Field for CopySource {
    fn encode(&self, names: &mut dyn Names) -> Encode {
        match self {
            CopySource::Constant(value) => value.encode(names),
            CopySource::Tile(view) => operands::encode_long(view, names),
        }
    }

    fn decode(value: Option<&Value>, scope: &Scope<'_>) -> Result<Self, String> {
        match value {
            Some(Value::Object(_)) => Ok(CopySource::Tile(View::decode(value, scope)?)),
            _ => Ok(CopySource::Constant(f64::decode(value, scope)?)),
        }
    }
}

impl Field for Arc<Register> {
    fn encode(&self, names: &mut dyn Names) -> Encode {
        Ok(names.register(self)?.into())
    }

    fn decode(value: Option<&Value>, scope: &Scope<'_>) -> Result<Self, String> {
        Ok(Arc::clone(scope.register(needed(value)?)?))
    }
}

impl Field for RegisterValue {
    fn encode(&self, names: &mut dyn Names) -> Encode {
        match self {
            RegisterValue::Number(number) => Ok((*number).into()),
            RegisterValue::Register(register) => Ok(json!({"register": names.register(register)?})),
        }
    }

    fn decode(value: Option<&Value>, scope: &Scope<'_>) -> Result<Self, String> {
        match needed(value)? {
            value @ Value::Object(_) => {
                Ok(RegisterValue::Register(entry(entries(value, &["register"])?, "register", scope)?))
            }
            value => Ok(RegisterValue::Number(i64::decode(Some(value), scope)?)),
        }
    }
}

impl Field for Reduction {
    fn encode(&self, names: &mut dyn Names) -> Encode {
        Ok(json!({
            "op": self.op.encode(names)?,
            "command": self.command.encode(names)?,
            "initial": self.initial.encode(names)?,
            "result": self.result.encode(names)?,
            "negate": self.negate,
        }))
    }

    fn decode(value: Option<&Value>, scope: &Scope<'_>) -> Result<Self, String> {
        let Some(value) = value.filter(|value| !value.is_null()) else {
            return Ok(Reduction::new(AluOp::Add, ReduceCommand::Idle, None));
        };
        let map = entries(value, &["op", "command", "initial", "result", "negate"])?;
        Ok(Reduction {
            op: entry(map, "op", scope)?,
            command: entry(map, "command", scope)?,
            initial: entry(map, "initial", scope)?,
            result: entry(map, "result", scope)?,
            negate: entry(map, "negate", scope)?,
        })
    }
}

impl Field for Tile {
    fn encode(&self, names: &mut dyn Names) -> Encode {
        Ok(json!({"position": self.position.encode(names)?, "size": self.size.encode(names)?}))
    }

    fn decode(value: Option<&Value>, scope: &Scope<'_>) -> Result<Self, String> {
        let map = entries(needed(value)?, &["position", "size"])?;
        Ok(Tile { position: entry(map, "position", scope)?, size: entry(map, "size", scope)? })
    }
}

impl Field for Affine {
    fn encode(&self, names: &mut dyn Names) -> Encode {
        Ok(json!({
            "pattern": self.pattern.encode(names)?,
            "offset": self.offset.encode(names)?,
            "channel_multiplier": self.channel_multiplier,
        }))
    }

    fn decode(value: Option<&Value>, scope: &Scope<'_>) -> Result<Self, String> {
        let map = entries(needed(value)?, &["pattern", "offset", "channel_multiplier"])?;
        Ok(Affine {
            pattern: entry(map, "pattern", scope)?,
            offset: entry(map, "offset", scope)?,
            channel_multiplier: entry(map, "channel_multiplier", scope)?,
        })
    }
}

impl Field for OutOfBounds {
    fn encode(&self, _names: &mut dyn Names) -> Encode {
        Ok(self.name().into())
    }

    fn decode(value: Option<&Value>, _scope: &Scope<'_>) -> Result<Self, String> {
        word(value)
    }
}

impl Field for DescriptorMode {
    fn encode(&self, _names: &mut dyn Names) -> Encode {
        Ok(self.name().into())
    }

    fn decode(value: Option<&Value>, _scope: &Scope<'_>) -> Result<Self, String> {
        word(value)
    }
}

impl Field for Options {
    fn encode(&self, names: &mut dyn Names) -> Encode {
        let mode = self.mode.map(DescriptorMode::name);
        let skips = self.out_of_bounds == OutOfBounds::Skip;
        let mut words =
            json!({"priority": self.priority.encode(names)?, "dge_mode": mode, "skip_out_of_bounds": skips});
        if self.ring != 0 {
            words["ring"] = self.ring.into();
        }
        Ok(words)
    }

    fn decode(value: Option<&Value>, scope: &Scope<'_>) -> Result<Self, String> {
        let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(Options::default()) };
        let map = entries(value, &["priority", "dge_mode", "skip_out_of_bounds", "ring"])?;
        let mode = match map.get("dge_mode").filter(|mode| !mode.is_null()) {
            None => None,
            Some(mode) => {
                let found = DescriptorMode::ALL.into_iter().find(|known| mode.as_str() == Some(known.name()));
                Some(found.ok_or_else(|| format!("dge_mode is {mode}; allowed: none, hwdge, swdge, null"))?)
            }
        };
        let skips: bool = entry(map, "skip_out_of_bounds", scope)?;
        let out_of_bounds = if skips { OutOfBounds::Skip } else { OutOfBounds::Error };
        let ring = Option::decode(map.get("ring"), scope).map_err(|text: String| format!("ring {text}"))?.unwrap_or(0);
        Ok(Options { priority: entry(map, "priority", scope)?, mode, out_of_bounds, ring })
    }
}
