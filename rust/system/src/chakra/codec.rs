//! Files of traces: a stream of messages, each behind its length as a varint.

use std::collections::HashSet;

use prost::Message;

use super::messages::{ChakraAttribute, ChakraMetadata, ChakraNode};
use super::trace::ChakraTrace;
use super::value::quoted;
use crate::error::{Error, Result};

/// The most bytes of a varint.
const VARINT_BYTES: usize = 10;

impl ChakraTrace {
    /// Its file.
    ///
    /// # Errors
    /// [`Error::Trace`] as [`ChakraTrace::order`].
    pub fn encode(&self) -> Result<Vec<u8>> {
        self.ordered("trace")?;
        let mut bytes = self.metadata.encode_length_delimited_to_vec();
        for node in &self.nodes {
            bytes.extend(node.encode_length_delimited_to_vec());
        }
        Ok(bytes)
    }

    /// The trace that a file holds. Fields that newer schemas may have are skipped; unknown attributes are kept.
    ///
    /// # Errors
    /// [`Error::Trace`] if it is no trace, or its nodes contradict each other; the text names `what` and the offset.
    ///
    /// ```
    /// use trn3_system::chakra::{ChakraNode, ChakraTrace};
    ///
    /// let node = ChakraNode { id: 3, name: "add".to_owned(), kind: 4, duration_micros: 7, ..ChakraNode::default() };
    /// let trace = ChakraTrace { nodes: vec![node], ..ChakraTrace::default() };
    /// assert_eq!(ChakraTrace::decode(&trace.encode()?, "trace")?, trace);
    /// # Ok::<(), trn3_system::Error>(())
    /// ```
    pub fn decode(bytes: &[u8], what: &str) -> Result<Self> {
        let mut at = 0;
        let Some(metadata) = message::<ChakraMetadata>(bytes, &mut at, "GlobalMetadata", what)? else {
            return Err(Error::Trace(format!("{what}: is empty; a trace begins with its metadata")));
        };
        let (mut nodes, mut ids): (Vec<ChakraNode>, HashSet<u64>) = Default::default();
        while let Some(node) = message::<ChakraNode>(bytes, &mut at, "Node", what)? {
            // A stream of zeros is many nodes without content: the first that cannot be ends it.
            if !ids.insert(node.id) {
                let first = nodes.iter().find(|other| other.id == node.id).map(|other| quoted(&other.name));
                let first = first.unwrap_or_default();
                return Err(Error::Trace(format!("{what}: two nodes have the id {}, the first is {first}", node.id)));
            }
            node.node_type().map_err(|error| Error::Trace(format!("{what}: {error}")))?;
            have_values(&node.attributes, what)?;
            nodes.push(node);
        }
        have_values(&metadata.attributes, what)?;
        let trace = Self { metadata, nodes };
        trace.ordered(what)?;
        Ok(trace)
    }
}

fn have_values(attributes: &[ChakraAttribute], what: &str) -> Result<()> {
    match attributes.iter().find(|attribute| attribute.value.is_none()) {
        Some(empty) => Err(Error::Trace(format!("{what}: attribute {} has no value", quoted(&empty.name)))),
        None => Ok(()),
    }
}

fn message<T: Message + Default>(bytes: &[u8], at: &mut usize, name: &str, what: &str) -> Result<Option<T>> {
    let start = *at;
    if start == bytes.len() {
        return Ok(None);
    }
    let wrong = |why: String| Err(Error::Trace(format!("{what}: byte {start}: {why}")));
    let mut length = 0u128;
    for place in 0.. {
        let Some(byte) = bytes.get(*at).filter(|_| place < VARINT_BYTES) else {
            return wrong("a length that does not end".to_owned());
        };
        *at += 1;
        length |= u128::from(byte & 0x7F) << (7 * place);
        if *byte < 0x80 {
            break;
        }
    }
    let left = &bytes[*at..];
    let body = usize::try_from(length).ok().and_then(|length| left.get(..length));
    let Some(body) = body else {
        let left = left.len();
        return wrong(format!(
            "a {name} of {length} bytes, but only {left} bytes follow: the file is cut off or is no trace"
        ));
    };
    *at += body.len();
    T::decode(body).map(Some).or_else(|error| wrong(format!("no {name}: {error}")))
}
