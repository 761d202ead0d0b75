//! The messages of `execution_trace.proto`, which stands beside this file; a test of Python's compiles it and compares.

#![allow(missing_docs, reason = "fields are as the schema's own description has them")]

use prost::{Message, Oneof};

/// What a trace begins with.
#[derive(Clone, PartialEq, Message)]
pub struct ChakraMetadata {
    #[prost(string, tag = "1")]
    pub version: String,
    #[prost(message, repeated, tag = "2")]
    pub attributes: Vec<ChakraAttribute>,
}

/// One piece of work.
#[derive(Clone, PartialEq, Message)]
pub struct ChakraNode {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(string, tag = "2")]
    pub name: String,
    /// A number of [`ChakraNodeType`](super::ChakraNodeType).
    #[prost(int32, tag = "3")]
    pub kind: i32,
    #[prost(uint64, repeated, tag = "4")]
    pub ctrl_deps: Vec<u64>,
    #[prost(uint64, repeated, tag = "5")]
    pub data_deps: Vec<u64>,
    #[prost(uint64, tag = "6")]
    pub start_time_micros: u64,
    #[prost(uint64, tag = "7")]
    pub duration_micros: u64,
    #[prost(message, optional, tag = "8")]
    pub inputs: Option<ChakraInfo>,
    #[prost(message, optional, tag = "9")]
    pub outputs: Option<ChakraInfo>,
    #[prost(message, repeated, tag = "10")]
    pub attributes: Vec<ChakraAttribute>,
    /// On the wire a message is bytes: kept whole without knowing what is in it.
    #[prost(bytes = "vec", optional, tag = "11")]
    pub storage: Option<Vec<u8>>,
}

/// Inputs or outputs of a node: three texts, each a list in the writer's notation.
#[derive(Clone, PartialEq, Message)]
pub struct ChakraInfo {
    #[prost(string, tag = "1")]
    pub values: String,
    #[prost(string, tag = "2")]
    pub shapes: String,
    #[prost(string, tag = "3")]
    pub types: String,
}

/// A named value of a node or of a trace.
#[derive(Clone, PartialEq, Message)]
pub struct ChakraAttribute {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub doc: String,
    #[prost(
        oneof = "ChakraValue",
        tags = "3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32"
    )]
    pub value: Option<ChakraValue>,
}

/// The value of an attribute: a kind, and one or a list of it.
#[derive(Clone, PartialEq, Oneof)]
pub enum ChakraValue {
    #[prost(double, tag = "3")]
    Double(f64),
    #[prost(message, tag = "4")]
    DoubleList(DoubleList),
    #[prost(float, tag = "5")]
    Float(f32),
    #[prost(message, tag = "6")]
    FloatList(FloatList),
    #[prost(int32, tag = "7")]
    Int32(i32),
    #[prost(message, tag = "8")]
    Int32List(Int32List),
    #[prost(int64, tag = "9")]
    Int64(i64),
    #[prost(message, tag = "10")]
    Int64List(Int64List),
    #[prost(uint32, tag = "11")]
    Uint32(u32),
    #[prost(message, tag = "12")]
    Uint32List(Uint32List),
    #[prost(uint64, tag = "13")]
    Uint64(u64),
    #[prost(message, tag = "14")]
    Uint64List(Uint64List),
    #[prost(sint32, tag = "15")]
    Sint32(i32),
    #[prost(message, tag = "16")]
    Sint32List(Sint32List),
    #[prost(sint64, tag = "17")]
    Sint64(i64),
    #[prost(message, tag = "18")]
    Sint64List(Sint64List),
    #[prost(fixed32, tag = "19")]
    Fixed32(u32),
    #[prost(message, tag = "20")]
    Fixed32List(Fixed32List),
    #[prost(fixed64, tag = "21")]
    Fixed64(u64),
    #[prost(message, tag = "22")]
    Fixed64List(Fixed64List),
    #[prost(sfixed32, tag = "23")]
    Sfixed32(i32),
    #[prost(message, tag = "24")]
    Sfixed32List(Sfixed32List),
    #[prost(sfixed64, tag = "25")]
    Sfixed64(i64),
    #[prost(message, tag = "26")]
    Sfixed64List(Sfixed64List),
    #[prost(bool, tag = "27")]
    Bool(bool),
    #[prost(message, tag = "28")]
    BoolList(BoolList),
    #[prost(string, tag = "29")]
    String(String),
    #[prost(message, tag = "30")]
    StringList(StringList),
    #[prost(bytes = "vec", tag = "31")]
    Bytes(Vec<u8>),
    #[prost(message, tag = "32")]
    BytesList(BytesList),
}

macro_rules! lists {
    ($($name:ident: $type:ty, [$($kind:tt)+];)*) => {$(
        /// A list of values of one kind.
        #[derive(Clone, PartialEq, Message)]
        pub struct $name {
            #[prost($($kind)+, repeated, tag = "1")]
            pub values: Vec<$type>,
        }
    )*};
}

lists! {
    DoubleList: f64, [double];
    FloatList: f32, [float];
    Int32List: i32, [int32];
    Int64List: i64, [int64];
    Uint32List: u32, [uint32];
    Uint64List: u64, [uint64];
    Sint32List: i32, [sint32];
    Sint64List: i64, [sint64];
    Fixed32List: u32, [fixed32];
    Fixed64List: u64, [fixed64];
    Sfixed32List: i32, [sfixed32];
    Sfixed64List: i64, [sfixed64];
    BoolList: bool, [bool];
    StringList: String, [string];
    BytesList: Vec<u8>, [bytes = "vec"];
}
