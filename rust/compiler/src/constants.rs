//! The constants of the compiler: what nobody publishes, each with its source in `models/compiler.toml` of the facts.

use std::cell::Cell;
use std::sync::OnceLock;

use trn3_machine::arch::ArchSpec;
use trn3_machine::{Error, Result};

/// What compilers of kernels do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CompilerConstants {
    /// Part of the DMA engines' rate that compiled kernels reach on the second generation.
    pub dma_share_gen2: f64,
    /// The same from the third generation on.
    pub dma_share: f64,
    /// Of what SBUF holds, how much may be live where work is shared.
    pub shared_room: f64,
    /// Rings that transfers are spread over.
    pub dma_rings: u8,
}

thread_local! {
    static INSTEAD: Cell<Option<CompilerConstants>> = const { Cell::new(None) };
}

/// Puts back what was there, however it ends.
struct Restored(Option<CompilerConstants>);

impl Drop for Restored {
    fn drop(&mut self) {
        INSTEAD.set(self.0);
    }
}

impl CompilerConstants {
    /// Runs something with these in the place of the crate's, on this thread.
    pub fn instead<T>(self, run: impl FnOnce() -> T) -> T {
        let _restored = Restored(INSTEAD.replace(Some(self)));
        run()
    }

    /// These with another value of one of them.
    ///
    /// # Errors
    /// [`Error::Value`] for a name that there is not, or a value that is no number above 0.
    pub fn changed(mut self, name: &str, value: f64) -> Result<Self> {
        if !(value.is_finite() && value > 0.0) {
            return Err(Error::Value(format!("{name} is {value}; allowed: numbers above 0")));
        }
        match name {
            "dma_share_gen2" => self.dma_share_gen2 = value,
            "dma_share" => self.dma_share = value,
            "shared_room" => self.shared_room = value,
            "dma_rings" => self.dma_rings = value as u8,
            _ => {
                let allowed = "dma_share_gen2, dma_share, shared_room, dma_rings";
                return Err(Error::Value(format!("constant is {name:?}; allowed: {allowed}")));
            }
        }
        Ok(self)
    }

    /// The constants of the crate, read once; on a thread that has [others instead](Self::instead), those.
    ///
    /// # Errors
    /// None in practice: the file is part of the crate and tested.
    pub fn load() -> Result<Self> {
        static LOADED: OnceLock<CompilerConstants> = OnceLock::new();
        if let Some(given) = INSTEAD.get() {
            return Ok(given);
        }
        if let Some(loaded) = LOADED.get() {
            return Ok(*loaded);
        }
        let facts = |error: trn3_facts::Error| Error::Value(error.to_string());
        let model = trn3_facts::parameters("compiler").map_err(facts)?;
        let read = |key: &str| model.si(key).map_err(facts);
        let constants = Self {
            dma_share_gen2: read("dma_share_gen2")?,
            dma_share: read("dma_share")?,
            shared_room: read("shared_room")?,
            dma_rings: read("dma_rings")? as u8,
        };
        Ok(*LOADED.get_or_init(|| constants))
    }

    /// Part of the DMA engines' rate that compiled kernels reach on a machine.
    pub fn dma_share(&self, arch: &ArchSpec) -> f64 {
        if arch.generation == 2 { self.dma_share_gen2 } else { self.dma_share }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_constants_are_in_the_facts() {
        let constants = CompilerConstants::load().expect("built in");
        for share in [constants.dma_share_gen2, constants.dma_share] {
            assert!(share > 0.0 && share <= 1.0);
        }
        assert!(constants.dma_rings > 0);
    }

    #[test]
    fn test_others_hold_where_they_are_given() {
        let own = CompilerConstants::load().expect("built in");
        let others = own.changed("shared_room", 1.25).and_then(|one| one.changed("dma_rings", 2.0)).expect("known");
        let within = others.instead(|| CompilerConstants::load().expect("given"));
        assert_eq!((within, CompilerConstants::load().expect("built in")), (others, own));
        assert!(own.changed("shared_room", 0.0).is_err());
        let error = own.changed("luck", 1.0).expect_err("none").to_string();
        assert!(error.contains("allowed: dma_share_gen2, dma_share, shared_room, dma_rings"), "{error}");
    }
}
