//! Chakra execution traces: the graphs of work that ASTRA-sim and other replay tools read.
//!
//! A trace is a file for each rank: a stream of protobuf messages, first one of metadata, then a node for each piece of
//! work. [`ChakraTrace::decode`] and [`ChakraTrace::encode`] read and write it, [`replay_traces`] runs the traces of all
//! ranks on a system, [`PlannedStep::traces`] makes them of a plan's step. The messages are those of `execution_trace.proto`.

mod attributes;
mod codec;
mod lower;
mod messages;
mod options;
mod replay;
mod steps;
mod trace;
mod value;

pub use messages::{
    BoolList, BytesList, ChakraAttribute, ChakraInfo, ChakraMetadata, ChakraNode, ChakraValue, DoubleList, Fixed32List,
    Fixed64List, FloatList, Int32List, Int64List, Sfixed32List, Sfixed64List, Sint32List, Sint64List, StringList,
    Uint32List, Uint64List,
};
pub use options::{ChakraOptions, ComputeTime, MemoryTime, RankPeaks};
pub use replay::{ChakraReplay, replay_traces};
pub use steps::{PlannedStep, TracedExchange, TracedGroup, TracedOperation, VERSION};
pub use trace::{COLLECTIVES, ChakraNodeType, ChakraTrace};
pub use value::ChakraScalar;
