//! Stochastic rounding of what the engines write: generators of their own, apart from those that kernels draw from.

use trn3_numerics::Xorwow;

use crate::engine::Engine;
use crate::error::{Error, Result};

/// The engines that round, in the order in which one stream of seeds fills their generators.
const ENGINES: [Engine; 4] = [Engine::Vector, Engine::Scalar, Engine::GpSimd, Engine::Tensor];

/// Cores that a launch may have: what a program says is checked before that many generators are made.
pub(crate) const MOST_PLACES: usize = 4096;

/// A generator for each engine that computes, with a lane a partition. DMA engines and the sequencer round to nearest.
///
/// Where the hardware draws from is documented nowhere. Here **(choice)** the generators of VectorE, ScalarE, GpSimdE and
/// TensorE are lanes of [`Xorwow::seed`], one engine after the other, and those of the launch's next core follow them: no
/// two engines draw alike, and VectorE of the first core draws what `Xorwow::seed(seed, partitions, 1)` gives.
///
/// ```
/// use trn3_machine::engine::Engine;
/// use trn3_machine::stochastic::StochasticRounding;
/// use trn3_numerics::Xorwow;
///
/// let mut rounding = StochasticRounding::seed(7, 0, 128)?;
/// rounding.start(Engine::Vector);
/// assert_eq!(rounding.draws(), Some(&mut Xorwow::seed(7, 128, 1)?));
/// rounding.start(Engine::Dma);
/// assert_eq!(rounding.draws(), None);
/// # Ok::<(), trn3_machine::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StochasticRounding {
    generators: Vec<Xorwow>,
    /// Whose instruction is at work.
    at_work: Option<usize>,
}

impl StochasticRounding {
    /// Generators of the core that stands at `place` among those of a launch.
    ///
    /// # Errors
    /// [`Error::Numerics`] if they cannot be seeded.
    pub fn seed(seed: u64, place: usize, lanes: usize) -> Result<Self> {
        let own = lanes * ENGINES.len();
        let all = Xorwow::seed(seed, own.saturating_mul(place.saturating_add(1)), 1)?;
        let words = all.state().len() / all.lanes();
        Self::load(&all.state()[own * place * words..], lanes)
    }

    /// Goes on from what [`StochasticRounding::state`] gave.
    ///
    /// # Errors
    /// [`Error::Numerics`] and [`Error::Value`] for words that are no states of these generators.
    pub fn load(state: &[u32], lanes: usize) -> Result<Self> {
        let share = state.len().div_ceil(ENGINES.len()).max(1);
        let generators: std::result::Result<Vec<_>, _> =
            state.chunks(share).map(|words| Xorwow::from_state(words, lanes, share / lanes.max(1))).collect();
        let generators = generators?;
        if generators.len() != ENGINES.len() {
            return Err(Error::Value(format!(
                "states of {} generators came; allowed: {}",
                generators.len(),
                ENGINES.len()
            )));
        }
        Ok(Self { generators, at_work: None })
    }

    /// The states of all generators, engine after engine.
    pub fn state(&self) -> Vec<u32> {
        self.generators.iter().flat_map(|generator| generator.state()).copied().collect()
    }

    /// An instruction of this engine comes.
    pub fn start(&mut self, engine: Engine) {
        self.at_work = ENGINES.iter().position(|&own| own == engine);
    }

    /// The generator of the engine at work; None where it rounds to nearest.
    pub fn draws(&mut self) -> Option<&mut Xorwow> {
        self.at_work.and_then(|engine| self.generators.get_mut(engine))
    }
}
