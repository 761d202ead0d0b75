//! Views: what each way of looking at a tensor reads, refuses and covers.

mod chains;
mod coverage;
mod examples;
mod refusals;

use std::sync::{Arc, Mutex, OnceLock};

use trn3_machine::dtype::DType;
use trn3_machine::site::SiteId;
use trn3_machine::storage::{Buffer, HbmBytes, Placement, Storage};
use trn3_machine::view::{Index, Register, ScalarIndex, View};

/// A tensor called `x`; on chip it starts at the given partition and byte.
fn tensor_at(buffer: Buffer, shape: &[usize], dtype: DType, corner: (usize, usize)) -> View {
    let place = buffer.is_on_chip().then(|| Placement {
        partition: corner.0,
        byte: corner.1,
        partitions: shape[0],
        bytes: shape[1..].iter().product::<usize>() * dtype.size(),
    });
    View::whole(Arc::new(Storage {
        id: 7,
        name: "x".to_string(),
        buffer,
        dtype,
        shape: shape.iter().copied().collect(),
        place,
        tenancy: Default::default(),
        addressed: false,
        site: SiteId(0),
        hbm: Arc::new(Mutex::new(HbmBytes::default())),
        shadows: Default::default(),
        pitch: OnceLock::new(),
        release: None,
    }))
}

fn sbuf(shape: &[usize], dtype: DType) -> View {
    tensor_at(Buffer::Sbuf, shape, dtype, (0, 0))
}

fn hbm(shape: &[usize], dtype: DType) -> View {
    tensor_at(Buffer::PrivateHbm, shape, dtype, (0, 0))
}

fn register() -> ScalarIndex {
    ScalarIndex::Register(Arc::new(Register {
        id: 3,
        frozen: false,
        value: Mutex::new(None),
        owner: Default::default(),
    }))
}

fn range(start: i64, stop: i64, step: i64) -> Index {
    Index::Range { start: Some(start), stop: Some(stop), step: Some(step) }
}

/// Positions of the view's elements, row-major: `row(i)` is where axis 0 starts its i-th row.
fn positions_with(view: &View, row: impl Fn(usize) -> i64) -> Vec<i64> {
    let mut positions: Vec<i64> = (0..view.shape[0]).map(|at| view.offset + row(at)).collect();
    for (&count, &stride) in view.shape.iter().zip(&view.strides).skip(1) {
        positions = positions.iter().flat_map(|&start| (0..count as i64).map(move |at| start + at * stride)).collect();
    }
    positions
}

/// Positions of the view's elements, row-major, dynamic parts left out.
fn positions(view: &View) -> Vec<i64> {
    positions_with(view, |at| at as i64 * view.strides[0])
}
