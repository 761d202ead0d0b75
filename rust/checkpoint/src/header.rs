//! The header of a file: checked, then parsed.

use safetensors::tensor::Metadata;

use crate::limits::MAX_HEADER_BYTES;
use crate::place::check_places;
use crate::problem::{Problem, quoted};
use crate::strict;

/// One tensor of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorEntry {
    /// Its name.
    pub name: String,
    /// Its safetensors dtype, such as `BF16`.
    pub dtype: String,
    /// Its sizes.
    pub shape: Vec<usize>,
    /// Its first byte in the data, which follow the header.
    pub begin: u64,
    /// The byte after its last.
    pub end: u64,
}

/// What a file says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Its `__metadata__`, in the order of the file.
    pub metadata: Vec<(String, String)>,
    /// Its tensors, in the order of their bytes; of those without bytes, in the order of the header.
    pub tensors: Vec<TensorEntry>,
}

/// Checks and parses a header that `held` bytes of data follow.
///
/// # Errors
/// What is wrong with it.
///
/// # Examples
/// ```
/// let text = br#"{"w":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}"#;
/// let header = trn3_checkpoint::parse(text, 2)?;
/// assert_eq!((header.tensors[0].name.as_str(), header.tensors[0].end), ("w", 2));
/// let problem = trn3_checkpoint::parse(text, 3).unwrap_err();
/// assert_eq!(problem.to_string(), "1 bytes after the last tensor belong to none");
/// # Ok::<(), trn3_checkpoint::Problem>(())
/// ```
pub fn parse(text: &[u8], held: u64) -> Result<Header, Problem> {
    let length = text.len() as u64;
    if length > MAX_HEADER_BYTES {
        return Err(Problem::HeaderTooLong { length });
    }
    if !text.starts_with(b"{") {
        return Err(Problem::NoBrace);
    }
    let text = std::str::from_utf8(text).map_err(|error| Problem::NotUtf8 { byte: error.valid_up_to() })?;
    let mut found = strict::walk(text)?;
    found.tensors.sort_by_key(|place| (place.begin, place.end));
    check_places(&found.tensors, held)?;
    let parsed: Metadata =
        serde_json::from_str(text).map_err(|error| Problem::Library { reason: error.to_string() })?;
    let tensors = found.tensors.into_iter().map(|place| entry(&parsed, place.name)).collect::<Result<_, _>>()?;
    Ok(Header { metadata: found.metadata, tensors })
}

fn entry(parsed: &Metadata, name: String) -> Result<TensorEntry, Problem> {
    let Some(info) = parsed.info(&name) else {
        return Err(Problem::Library { reason: format!("it has no tensor {}", quoted(&name)) });
    };
    let (begin, end) = info.data_offsets;
    Ok(TensorEntry {
        dtype: info.dtype.to_string(),
        shape: info.shape.clone(),
        begin: begin as u64,
        end: end as u64,
        name,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::limits::DTYPES;

    const SOUND: &str = r#"{"__metadata__":{"format":"pt","a":"b"},"w":{"dtype":"F32","shape":[2,4],"data_offsets":[8,40]},
        "v":{"dtype":"F4","shape":[16],"data_offsets":[0,8],"note":[{"x":1}]},
        "none":{"dtype":"U8","shape":[0,4611686018427387904],"data_offsets":[8,8]}}  "#;

    #[test]
    fn a_sound_header_is_read_in_the_order_of_its_bytes() {
        let header = parse(SOUND.as_bytes(), 40).expect("sound");
        let names: Vec<_> = header.tensors.iter().map(|each| each.name.as_str()).collect();
        assert_eq!(names, ["v", "none", "w"]);
        assert_eq!(header.metadata, [("format", "pt"), ("a", "b")].map(|(k, v)| (k.to_owned(), v.to_owned())));
        assert_eq!((header.tensors[2].dtype.as_str(), &header.tensors[2].shape[..]), ("F32", &[2, 4][..]));
    }

    #[test]
    fn every_dtype_of_the_library_is_known() {
        for name in DTYPES {
            let text = format!(r#"{{"w":{{"dtype":"{name}","shape":[0],"data_offsets":[0,0]}}}}"#);
            assert_eq!(parse(text.as_bytes(), 0).expect(name).tensors[0].dtype, name);
        }
    }

    #[test]
    fn nothing_is_built_of_what_is_not_believed() {
        // Such lists took half a minute and gigabytes once.
        let lists = "[],".repeat(1_000_000);
        let refused = |problem| Err::<Header, _>(problem);
        let text = format!(r#"{{"w":[{lists}[]]}}"#);
        assert_eq!(parse(text.as_bytes(), 0), refused(Problem::NotDescribed { name: "'w'".to_owned() }));
        let text = format!(r#"{{"w":{{"dtype":"U8","shape":[{lists}[]],"data_offsets":[0,0]}}}}"#);
        let Err(Problem::Shape { shape, .. }) = parse(text.as_bytes(), 0) else { panic!("not refused") };
        assert!(shape.starts_with("[[...], ") && shape.len() < 100, "{shape}");
        let text = format!(r#"{{"w":{}"#, "[".repeat(200_000));
        assert_eq!(parse(text.as_bytes(), 0), refused(Problem::TooDeep));
    }

    #[test]
    fn a_name_twice_is_refused_at_any_depth() {
        for (text, name) in [
            (r#"{"__metadata__":{"k":"a","k":"b"}}"#, "'k'"),
            (r#"{"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"x":[{"y":{"z":1,"z":2}}]}}"#, "'z'"),
            (r#"{"__metadata__":{},"__metadata__":{}}"#, "'__metadata__'"),
        ] {
            assert_eq!(parse(text.as_bytes(), 0), Err(Problem::Twice { name: name.to_owned() }));
        }
    }

    proptest! {
        #[test]
        fn whatever_bytes_come_nothing_panics(at in 0..SOUND.len(), byte in any::<u8>(), cut in 0..SOUND.len(), held in 0..64_u64) {
            let mut text = SOUND.as_bytes().to_vec();
            text[at] = byte;
            text.truncate(SOUND.len() - cut.saturating_sub(SOUND.len() / 2));
            if let Ok(header) = parse(&text, held) {
                prop_assert_eq!(header.tensors.iter().map(|each| each.end - each.begin).sum::<u64>(), held);
            }
        }
    }
}
