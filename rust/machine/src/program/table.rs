//! Every instruction of one core, with its arguments: the one list that writes and reads them.

use std::any::Any;

use serde_json::{Map, Value};

use super::fields::{Field, Names, Scope};
use crate::arch::ArchSpec;
use crate::error::{Error, Result};
use crate::isa::activation::{Activate2, Activation};
use crate::isa::copy::{Memset, TensorCopy};
use crate::isa::dma::compute::DmaCompute;
use crate::isa::dma::copy::DmaCopy;
use crate::isa::dma::transpose::DmaTranspose;
use crate::isa::dropout::Dropout;
use crate::isa::elementwise::{Reciprocal, ScalarTensorTensor, TensorTensor};
use crate::isa::exponential::Exponential;
use crate::isa::gpsimd::affine::{AffineSelect, Iota};
use crate::isa::gpsimd::gather::{LocalGather, NcNGather};
use crate::isa::gpsimd::reduce::{SequenceBounds, TensorPartitionReduce};
use crate::isa::gpsimd::search::{NonzeroWithCount, TopK};
use crate::isa::quantize::QuantizeMx;
use crate::isa::random::{Rand2, RandGetState, RandSetState, Rng, SetRngSeed};
use crate::isa::reduce::TensorReduce;
use crate::isa::register::{RegisterLoad, RegisterMove, RegisterStore};
use crate::isa::scan::{TensorScalarCumulative, TensorTensorScan};
use crate::isa::search::{FindIndex8, MatchReplace8, Max8};
use crate::isa::select::{RangeSelect, SelectReduce, TensorCopyPredicated};
use crate::isa::shuffle::StreamShuffle;
use crate::isa::statistics::{BnAggr, BnStats};
use crate::isa::tensor::matmul::NcMatmul;
use crate::isa::tensor::matmul_mx::NcMatmulMx;
use crate::isa::tensor::matmul_sparse::NcMatmulSparse;
use crate::isa::tensor::transpose::NcTranspose;
use crate::isa::tensor_scalar::{TensorScalar, TensorScalarReduce};
use crate::isa::{Instruction, custom};

/// An instruction that a program holds.
pub(super) type Held = Box<dyn Instruction + Send + Sync>;

/// Keys of a step that are no arguments of its instruction.
const OWN_KEYS: [&str; 3] = ["op", "label", "after"];

macro_rules! instructions {
    ($($name:literal => $type:ident { $($field:ident),* })*) => {
        /// Names of all instructions that programs can hold.
        pub const OPERATIONS: &[&str] =
            &[$($name,)* "activation", "activation_reduce", "nonzero_with_count"];

        fn encode_listed(instruction: &dyn Any, names: &mut dyn Names, map: &mut Map<String, Value>) -> Result<bool> {
            $(if let Some(instruction) = instruction.downcast_ref::<$type>() {
                $(map.insert(stringify!($field).to_owned(), instruction.$field.encode(names)?);)*
                return Ok(true);
            })*
            Ok(false)
        }

        fn decode_listed(op: &str, arguments: &Arguments<'_>) -> std::result::Result<Option<Held>, String> {
            match op {
                $($name => {
                    arguments.only(&[$(argument_key(stringify!($field))),*])?;
                    Ok(Some(Box::new($type { $($field: arguments.take(stringify!($field))?),* })))
                })*
                _ => Ok(None),
            }
        }
    };
}

instructions! {
    "activate2" => Activate2 { dst, op, data, imm0, imm1, op0, op1, relu_param, reverse0, reverse1, reduction }
    "affine_select" => AffineSelect { dst, affine, on_true_tile, on_false_value, cmp_op }
    "bn_aggr" => BnAggr { dst, data }
    "bn_stats" => BnStats { dst, data }
    "dma_compute" => DmaCompute { dst, srcs, reduce_op, scales, unique_indices, options }
    "dma_copy" => DmaCopy { dst, src, options, engine }
    "dma_transpose" => DmaTranspose { dst, src, axes, options }
    "dropout" => Dropout { dst, data, prob }
    "exponential" => Exponential { dst, src, max_value, reduction }
    "iota" => Iota { dst, affine }
    "local_gather" => LocalGather { dst, src_buffer, index, num_elem_per_idx, num_valid_indices }
    "max8" => Max8 { dst, src }
    "memset" => Memset { dst, value, engine }
    "nc_find_index8" => FindIndex8 { dst, data, vals }
    "nc_match_replace8" => MatchReplace8 { dst, data, vals, imm, dst_idx }
    "nc_matmul" => NcMatmul {
        dst, stationary, moving, is_stationary_onezero, is_moving_onezero, is_transpose, accumulate, tile, double_row
    }
    "nc_matmul_mx" => NcMatmulMx { dst, stationary, moving, stationary_scale, moving_scale, tile, accumulate }
    "nc_matmul_sparse" => NcMatmulSparse { dst, stationary, moving, tags, pattern, accumulate }
    "nc_n_gather" => NcNGather { dst, data, indices }
    "nc_stream_shuffle" => StreamShuffle { dst, src, mask }
    "nc_transpose" => NcTranspose { dst, data, engine }
    "quantize_mx" => QuantizeMx { dst, src, dst_scale, ocp_rule }
    "rand2" => Rand2 { dst, min, max }
    "rand_get_state" => RandGetState { dst, engine }
    "rand_set_state" => RandSetState { src_seeds, engine }
    "range_select" => RangeSelect {
        dst, on_true, comp_op0, comp_op1, bound0, bound1, reduction, range_start, on_false_value
    }
    "reciprocal" => Reciprocal { dst, data }
    "register_load" => RegisterLoad { dst, src }
    "register_move" => RegisterMove { dst, src }
    "register_store" => RegisterStore { dst, src }
    "rng" => Rng { dst, engine }
    "scalar_tensor_tensor" => ScalarTensorTensor { dst, data, op0, operand0, op1, operand1, reverse0, reverse1 }
    "select_reduce" => SelectReduce { dst, predicate, on_true, on_false, reduction, reverse_pred }
    "sequence_bounds" => SequenceBounds { dst, segment_ids }
    "set_rng_seed" => SetRngSeed { src_seeds }
    "tensor_copy" => TensorCopy { dst, src, engine }
    "tensor_copy_predicated" => TensorCopyPredicated { dst, src, predicate, reverse_pred }
    "tensor_partition_reduce" => TensorPartitionReduce { dst, op, data }
    "tensor_reduce" => TensorReduce { dst, op, data, axes, negate, keepdims }
    "tensor_scalar" => TensorScalar { dst, data, op0, operand0, reverse0, op1, operand1, reverse1, engine }
    "tensor_scalar_cumulative" => TensorScalarCumulative { dst, src, op0, op1, imm0, imm1, command }
    "tensor_scalar_reduce" => TensorScalarReduce { dst, data, op0, operand0, reverse0, reduction }
    "tensor_tensor" => TensorTensor { dst, data1, data2, op, engine }
    "tensor_tensor_scan" => TensorTensorScan { dst, data0, data1, initial, op0, op1, reverse0, reverse1 }
    "topk" => TopK { val_dst, idx_dst, src, n }
}

/// The arguments of one step.
struct Arguments<'a> {
    step: &'a Map<String, Value>,
    scope: &'a Scope<'a>,
}

impl Arguments<'_> {
    fn only(&self, known: &[&str]) -> std::result::Result<(), String> {
        let mut keys = self.step.keys().map(String::as_str);
        match keys.find(|key| !known.contains(key) && !OWN_KEYS.contains(key)) {
            Some(key) => Err(format!("has argument {key:?}; it takes {}", known.join(", "))),
            None => Ok(()),
        }
    }

    fn take<T: Field>(&self, key: &str) -> std::result::Result<T, String> {
        T::decode(self.step.get(argument_key(key)), self.scope).map_err(|text| format!("{} {text}", argument_key(key)))
    }
}

/// `op` of a step is its instruction; an argument of that name is `function`.
fn argument_key(field: &str) -> &str {
    if field == "op" { "function" } else { field }
}

/// Words for an instruction.
///
/// # Errors
/// [`Error::NotModelled`] for what programs cannot hold: what cores do together, and functions of the host.
pub(super) fn encode(instruction: &dyn Instruction, names: &mut dyn Names) -> Result<Map<String, Value>> {
    let mut map = Map::new();
    map.insert("op".to_owned(), Value::Null);
    let any: &dyn Any = instruction;
    if let Some(Activation { name: _, dst, op, data, bias, scale, reduction }) = any.downcast_ref() {
        map.insert("dst".to_owned(), dst.encode(names)?);
        map.insert("function".to_owned(), op.encode(names)?);
        map.insert("data".to_owned(), data.encode(names)?);
        map.insert("bias".to_owned(), bias.encode(names)?);
        map.insert("scale".to_owned(), scale.encode(names)?);
        map.insert("reduction".to_owned(), reduction.encode(names)?);
    } else if let Some(found) = any.downcast_ref::<NonzeroWithCount>() {
        map.insert("dst".to_owned(), found.dst.encode(names)?);
        map.insert("src".to_owned(), found.src.encode(names)?);
        map.insert("index_offset".to_owned(), found.index_offset.into());
        map.insert("padding_val".to_owned(), found.padding_val.into());
    } else {
        let mut listed = Map::new();
        if !encode_listed(any, names, &mut listed)? {
            let why =
                if any.is::<custom::GpSimdCall>() { "its function is the host's" } else { "cores run it together" };
            return Err(Error::NotModelled(format!("{} cannot be part of a program: {why}", instruction.name())));
        }
        map.extend(listed.into_iter().map(|(field, value)| (argument_key(&field).to_owned(), value)));
    }
    // What is not given is not written.
    map.retain(|key, value| key == "op" || !value.is_null());
    map.insert("op".to_owned(), instruction.name().into());
    Ok(map)
}

/// The instruction of a step.
pub(super) fn decode(
    op: &str,
    step: &Map<String, Value>,
    scope: &Scope<'_>,
    arch: &ArchSpec,
) -> std::result::Result<Held, String> {
    let arguments = Arguments { step, scope };
    if let Some(instruction) = decode_listed(op, &arguments)? {
        return Ok(instruction);
    }
    if let Some(name) = ["activation", "activation_reduce"].into_iter().find(|name| *name == op) {
        arguments.only(&["dst", "function", "data", "bias", "scale", "reduction"])?;
        return Ok(Box::new(Activation {
            name,
            dst: arguments.take("dst")?,
            op: arguments.take("op")?,
            data: arguments.take("data")?,
            bias: arguments.take("bias")?,
            scale: arguments.take("scale")?,
            reduction: arguments.take("reduction")?,
        }));
    }
    if op == "nonzero_with_count" {
        arguments.only(&["dst", "src", "index_offset", "padding_val"])?;
        let (dst, src) = (arguments.take("dst")?, arguments.take("src")?);
        let (offset, padding) = (arguments.take("index_offset")?, arguments.take("padding_val")?);
        let made = NonzeroWithCount::new(dst, src, offset, padding, arch).map_err(|error| error.to_string())?;
        return Ok(Box::new(made));
    }
    Err(format!("is no instruction; allowed: {}", OPERATIONS.join(", ")))
}
