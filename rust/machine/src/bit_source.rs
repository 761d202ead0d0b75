//! Where random bits come from.

use trn3_numerics::Xorwow;

use crate::error::Result;

/// Random bits, 32 at a time: the hardware's generator, or draws recorded elsewhere.
///
/// ```
/// use trn3_machine::{Result, host::BitSource};
///
/// /// Gives recorded draws, one after the other.
/// struct Recorded(Vec<u32>, usize);
///
/// impl BitSource for Recorded {
///     fn fill(&mut self, draws: &mut [u32]) -> Result<()> {
///         let end = self.1 + draws.len();
///         let recorded = self.0.get(self.1..end).ok_or_else(|| {
///             trn3_machine::Error::Value(format!("draw {end} is wanted; {} were recorded", self.0.len()))
///         })?;
///         draws.copy_from_slice(recorded);
///         self.1 = end;
///         Ok(())
///     }
/// }
///
/// let mut source: Box<dyn BitSource> = Box::new(Recorded(vec![7, 8, 9], 0));
/// assert_eq!([source.next()?, source.next()?], [7, 8]);
/// assert!(source.fill(&mut [0; 2]).is_err());
/// # Ok::<(), trn3_machine::Error>(())
/// ```
pub trait BitSource: Send + Sync {
    /// Fills a block: of an engine the draws of all its lanes, lane after lane.
    ///
    /// # Errors
    /// When the source has no more.
    fn fill(&mut self, draws: &mut [u32]) -> Result<()>;

    /// The next 32 bits.
    ///
    /// # Errors
    /// As [`BitSource::fill`].
    fn next(&mut self) -> Result<u32> {
        let mut draw = [0];
        self.fill(&mut draw)?;
        Ok(draw[0])
    }
}

/// Every lane gives an equal share of a block, which has to be a multiple of the lanes.
impl BitSource for Xorwow {
    fn fill(&mut self, draws: &mut [u32]) -> Result<()> {
        let share = draws.len() / self.lanes();
        Ok(self.uint32(share, draws)?)
    }
}
