//! Values of attributes, whatever kind the file has them in.

use std::fmt::{Display, Formatter};

use super::messages::*;

/// A number, a text, bytes or a truth value.
#[derive(Clone, Debug, PartialEq)]
pub enum ChakraScalar {
    /// Of the kinds `double` and `float`.
    Real(f64),
    /// Of all kinds of whole numbers.
    Whole(i128),
    /// Of the kind `bool`.
    Flag(bool),
    /// Of the kind `string`.
    Text(String),
    /// Of the kind `bytes`.
    Bytes(Vec<u8>),
}

/// As Python writes it, whose users read most of the messages.
impl Display for ChakraScalar {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Real(number) => write!(f, "{number:?}"),
            Self::Whole(number) => write!(f, "{number}"),
            Self::Flag(flag) => f.write_str(if *flag { "True" } else { "False" }),
            Self::Text(text) => f.write_str(&quoted(text)),
            Self::Bytes(bytes) => write!(f, "b'{}'", bytes.escape_ascii()),
        }
    }
}

/// A text in quotes, as Python writes it.
pub(super) fn quoted(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut made = String::from(quote);
    for character in text.chars() {
        match character {
            '"' | '\'' if character != quote => made.push(character),
            // Rust escapes as Python does, except for the quotes.
            _ => made.extend(character.escape_debug()),
        }
    }
    made.push(quote);
    made
}

trait Kept: Sized {
    fn scalar(self) -> ChakraScalar;
    fn taken(from: ChakraScalar) -> Option<Self>;
}

macro_rules! whole {
    ($($type:ty)*) => {$(
        impl Kept for $type {
            fn scalar(self) -> ChakraScalar {
                ChakraScalar::Whole(self.into())
            }
            fn taken(from: ChakraScalar) -> Option<Self> {
                match from {
                    ChakraScalar::Whole(number) => number.try_into().ok(),
                    _ => None,
                }
            }
        }
    )*};
}

whole!(i32 i64 u32 u64);

macro_rules! real {
    ($($type:ty)*) => {$(
        impl Kept for $type {
            fn scalar(self) -> ChakraScalar {
                ChakraScalar::Real(self.into())
            }
            fn taken(from: ChakraScalar) -> Option<Self> {
                match from {
                    ChakraScalar::Real(number) => Some(number as $type),
                    ChakraScalar::Whole(number) => Some(number as $type),
                    _ => None,
                }
            }
        }
    )*};
}

real!(f32 f64);

macro_rules! plain {
    ($($type:ty: $variant:ident)*) => {$(
        impl Kept for $type {
            fn scalar(self) -> ChakraScalar {
                ChakraScalar::$variant(self)
            }
            fn taken(from: ChakraScalar) -> Option<Self> {
                match from {
                    ChakraScalar::$variant(value) => Some(value),
                    _ => None,
                }
            }
        }
    )*};
}

plain!(bool: Flag String: Text Vec<u8>: Bytes);

macro_rules! kinds {
    ($($name:literal $one:ident $many:ident)*) => {
        impl ChakraValue {
            /// Names of the kinds, in the order of the schema.
            pub const KINDS: [&str; 15] = [$($name),*];

            /// Its kind.
            pub const fn kind(&self) -> &'static str {
                match self {$(
                    Self::$one(_) | Self::$many(_) => $name,
                )*}
            }

            /// What it holds, and whether that is a list.
            pub fn scalars(&self) -> (Vec<ChakraScalar>, bool) {
                match self {$(
                    Self::$one(value) => (vec![value.clone().scalar()], false),
                    Self::$many(list) => (list.values.iter().cloned().map(Kept::scalar).collect(), true),
                )*}
            }

            /// The value of a kind that holds a scalar or a list of them; None if there is no such kind, or they are not
            /// of it.
            pub fn of(kind: &str, mut scalars: Vec<ChakraScalar>, is_list: bool) -> Option<Self> {
                match (kind, is_list) {
                    $(
                        ($name, false) if scalars.len() == 1 => Kept::taken(scalars.remove(0)).map(Self::$one),
                        ($name, true) => {
                            let values = scalars.into_iter().map(Kept::taken).collect::<Option<_>>()?;
                            Some(Self::$many($many { values }))
                        }
                    )*
                    _ => None,
                }
            }
        }
    };
}

kinds! {
    "double" Double DoubleList
    "float" Float FloatList
    "int32" Int32 Int32List
    "int64" Int64 Int64List
    "uint32" Uint32 Uint32List
    "uint64" Uint64 Uint64List
    "sint32" Sint32 Sint32List
    "sint64" Sint64 Sint64List
    "fixed32" Fixed32 Fixed32List
    "fixed64" Fixed64 Fixed64List
    "sfixed32" Sfixed32 Sfixed32List
    "sfixed64" Sfixed64 Sfixed64List
    "bool" Bool BoolList
    "string" String StringList
    "bytes" Bytes BytesList
}

impl Display for ChakraValue {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let (scalars, is_list) = self.scalars();
        let texts: Vec<String> = scalars.iter().map(ChakraScalar::to_string).collect();
        match (is_list, texts.len()) {
            (true, 1) => write!(f, "({},)", texts[0]),
            (true, _) => write!(f, "({})", texts.join(", ")),
            _ => f.write_str(&texts[0]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_values_come_back_from_their_scalars() {
        for kind in ChakraValue::KINDS {
            let scalar = match kind {
                "double" | "float" => ChakraScalar::Real(0.5),
                "bool" => ChakraScalar::Flag(true),
                "string" => ChakraScalar::Text("it's".to_owned()),
                "bytes" => ChakraScalar::Bytes(vec![0, 255]),
                _ => ChakraScalar::Whole(7),
            };
            for (scalars, is_list) in [(vec![scalar.clone()], false), (vec![scalar.clone(); 3], true), (vec![], true)] {
                let value = ChakraValue::of(kind, scalars.clone(), is_list).expect("a value");
                assert_eq!((value.kind(), value.scalars()), (kind, (scalars, is_list)));
            }
            assert_eq!(ChakraValue::of(kind, vec![], false), None);
        }
        assert_eq!(ChakraValue::of("int32", vec![ChakraScalar::Whole(1 << 31)], false), None);
        assert_eq!(ChakraValue::of("int65", vec![ChakraScalar::Whole(1)], false), None);
    }

    #[test]
    fn test_values_are_written_as_python_does() {
        let list = |flags: &[bool]| ChakraValue::BoolList(BoolList { values: flags.to_vec() }).to_string();
        assert_eq!(
            (list(&[]), list(&[true]), list(&[true, false])),
            ("()".into(), "(True,)".into(), "(True, False)".into())
        );
        assert_eq!(ChakraValue::Double(2.0).to_string(), "2.0");
        assert_eq!(ChakraValue::String("it's\n".to_owned()).to_string(), "\"it's\\n\"");
        assert_eq!(quoted("both ' and \""), "'both \\' and \"'");
    }
}
