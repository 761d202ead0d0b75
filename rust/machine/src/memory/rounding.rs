//! Writes that are rounded stochastically, and whose draws round an element: those of its partition's lane.

use trn3_numerics::{CastOptions, Draws, Xorwow};

use super::resolve::{Operand, Resolved, Rows};
use super::{Memory, convert};
use crate::error::Result;

impl Memory {
    /// As [`Memory::write_f32`], rounded by draws of a generator with a lane for each partition: row p of a tile takes the
    /// next draws of the lane of the partition that it lies on, one an element, and all lanes move on by as many
    /// **(choice)**. A tile of all partitions is thus rounded as by [`trn3_numerics::cast`]; so is a tensor in HBM.
    /// Integers and types of 32 bits need no draws and take none.
    ///
    /// # Errors
    /// As [`Memory::write_f32`].
    pub fn write_f32_stochastic<'v>(
        &mut self,
        operand: impl Into<Operand<'v>>,
        values: &[f32],
        generator: &mut Xorwow,
    ) -> Result<()> {
        let operand = operand.into();
        let (dtype, storage) = (operand.view.dtype, &operand.view.storage);
        if !dtype.is_float() || dtype.size() >= size_of::<f32>() {
            return self.write_f32(operand, values, CastOptions::default());
        }
        let place = self.resolve_write(operand, values.len(), None)?;
        self.inspect(operand.view, values, None);
        let rows = draws_of_rows(&place, generator)?;
        let draws = rows.as_deref().map_or(Draws::Xorwow(generator), Draws::Given);
        self.store_codes(&place, storage, None, |codes| convert::encode_stochastic(dtype, values, codes, draws))?;
        self.keep_written(operand, values, None)
    }
}

/// The draws of a tile's elements; None where they are those that the generator gives in C order.
fn draws_of_rows(place: &Resolved, generator: &mut Xorwow) -> Result<Option<Vec<u32>>> {
    let (lanes, count) = (generator.lanes(), place.row_len());
    let starts = match &place.rows {
        _ if place.pitch == 0 => return Ok(None),
        Rows::Regular { first, count, stride } => {
            if first / place.pitch == 0 && *count == lanes && *stride == place.pitch as isize {
                return Ok(None);
            }
            (0..*count as isize).map(|row| Some((*first as isize + row * stride) as usize)).collect()
        }
        Rows::Listed(starts) => starts.to_vec(),
    };
    let mut all = vec![0; lanes * count];
    generator.uint32(count, &mut all)?;
    let mut draws = vec![0; starts.len() * count];
    for (start, draws) in starts.iter().zip(draws.chunks_exact_mut(count.max(1))) {
        // Rows that are left out keep what they hold.
        let lane = start.map(|start| start / place.pitch).filter(|&lane| lane < lanes);
        if let Some(lane) = lane {
            draws.copy_from_slice(&all[lane * count..][..count]);
        }
    }
    Ok(Some(draws))
}
