//! Where tensors are in the data, and whether that can be.

use crate::problem::{Problem, listed, quoted};

/// Where a tensor's bytes are.
pub(crate) struct Place {
    pub(crate) name: String,
    pub(crate) begin: u64,
    pub(crate) end: u64,
}

/// Refuses data that are not those of the tensors, each byte once.
pub(crate) fn check_places(places: &[Place], held: u64) -> Result<(), Problem> {
    let mut position = 0;
    for Place { name, begin, end } in places {
        if *begin < position {
            return Err(Problem::Overlap { name: quoted(name), byte: *begin });
        }
        if *begin > position {
            return Err(Problem::Hole { begin: position, end: *begin, name: quoted(name) });
        }
        position = *end;
    }
    if position > held {
        return Err(Problem::Truncated { needed: position, held });
    }
    if position < held {
        return Err(Problem::Beyond { bytes: held - position });
    }
    Ok(())
}

/// Refuses a shape whose values are not as many bytes as the offsets give.
pub(crate) fn check_size(place: &Place, dtype: &str, bits: u64, shape: &[u64]) -> Result<(), Problem> {
    let given = place.end - place.begin;
    let (name, dtype) = (quoted(&place.name), dtype.to_owned());
    let shown = listed(&shape.iter().map(u64::to_string).collect::<Vec<_>>());
    let values = if shape.contains(&0) {
        Some(0)
    } else {
        shape.iter().try_fold(1_u128, |product, size| product.checked_mul(u128::from(*size)))
    };
    let Some(bits) = values.and_then(|values| values.checked_mul(u128::from(bits))) else {
        return Err(Problem::Size { name, dtype, shape: shown, needed: "more than 2^125".to_owned(), given });
    };
    if !bits.is_multiple_of(8) {
        return Err(Problem::HalfByte { name, dtype, shape: shown });
    }
    if bits / 8 != u128::from(given) {
        return Err(Problem::Size { name, dtype, shape: shown, needed: (bits / 8).to_string(), given });
    }
    Ok(())
}
