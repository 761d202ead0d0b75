//! The stateless arithmetic: bit patterns in, bit patterns out, the same bits as `trn3-numerics` gives.

mod activation;
mod cast;
mod exp;
mod matmul;
mod mx;
mod rounding;
mod sparse;
mod step;
mod xorwow;

pub use activation::*;
pub use cast::*;
pub use exp::*;
pub use matmul::*;
pub use mx::*;
pub use rounding::*;
pub use sparse::*;
pub use step::*;
pub use xorwow::*;
