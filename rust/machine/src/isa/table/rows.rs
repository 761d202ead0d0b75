//! The rows of the table.

/// Gives the rows of the table to a macro: every instruction that one core runs.
///
/// A row reads: name (arguments by keyword and in order, each with its [`Kind`](crate::isa::table::Kind) and what stands for
/// it where it is left out), [`Family`](crate::isa::table::Family) `on` the engines that may run it, `=>` the struct that
/// holds it, field by field. A field is the argument of its name, what one of [`makers`](crate::isa::table::makers) makes of
/// arguments (`=`), or the same for every instruction of the row (`:=`).
#[macro_export]
macro_rules! instructions {
    ($callback:ident) => {
        $callback! {
            activate2(
                dst: Tile, op: Function, data: Tile, imm0: Scalar, imm1: Scalar, op0: MaybeOp, op1: MaybeOp,
                relu_param: Scalar = 0.0, reverse0: Flag = false, reverse1: Flag = false,
                reduce_op: MaybeOp = None, reduce_res: MaybeTile = None, reduce_cmd: Command = "idle",
            ) Function on Scalar => Activate2 {
                dst, op, data, imm0, imm1, op0, op1, relu_param, reverse0, reverse1,
                reduction = reduction(reduce_op, reduce_cmd, reduce_res),
            }
            activation(
                dst: Tile, op: Function, data: Tile, bias: Scalar = None, scale: Scalar = 1.0,
                reduce_op: MaybeOp = None, reduce_res: MaybeTile = None, reduce_cmd: Command = "idle",
            ) Function on Scalar => Activation {
                name := "activation", dst, op, data, bias, scale,
                reduction = reduction(reduce_op, reduce_cmd, reduce_res),
            }
            activation_reduce(
                dst: Tile, op: Function, data: Tile, reduce_op: MaybeOp, reduce_res: MaybeTile,
                bias: Scalar = None, scale: Scalar = 1.0,
            ) Function on Scalar => Activation {
                name := "activation_reduce", dst, op, data, bias, scale,
                reduction = reset_reduction(reduce_op, reduce_res),
            }
            affine_select(
                dst: Tile, pattern: Pairs, channel_multiplier: Integer, on_true_tile: Tile, on_false_value: Scalar,
                cmp_op: Op = "equal", offset: IntegerOrRegister = 0,
            ) Elementwise on GpSimd => AffineSelect {
                dst, affine = affine(pattern, offset, channel_multiplier), on_true_tile, on_false_value, cmp_op,
            }
            bn_aggr(dst: Tile, data: Tile) Reduction on Vector => BnAggr { dst, data }
            bn_stats(dst: Tile, data: Tile) Reduction on Vector => BnStats { dst, data }
            dma_compute(
                dst: Tile, srcs: Tiles, reduce_op: Op, scales: MaybeNumbers = None, unique_indices: Flag = true,
                oob_mode: OobMode = "error",
            ) Dma on Dma => DmaCompute { dst, srcs, reduce_op, scales, unique_indices, options = rows_outside(oob_mode) }
            dma_copy(
                dst: Tile, src: Tile, priority: Priority = None, oob_mode: OobMode = "error", dge_mode: DgeMode = None,
                engine: MaybeEngine = None,
            ) Dma on Dma => DmaCopy { dst, src, options = options(priority, dge_mode, oob_mode), engine }
            dma_transpose(
                dst: Tile, src: Tile, axes: MaybeCounts = None, priority: Priority = None, dge_mode: DgeMode = None,
                oob_mode: OobMode = "error",
            ) Dma on Dma => DmaTranspose { dst, src, axes, options = options(priority, dge_mode, oob_mode) }
            dropout(dst: Tile, data: Tile, prob: Scalar) Elementwise on Vector => Dropout { dst, data, prob }
            exponential(
                dst: Tile, src: Tile, max_value: Scalar = 0.0, reduce_res: MaybeTile = None,
                reduce_cmd: Command = "idle", reduce_init: Scalar = 0.0,
            ) Function on Vector => Exponential {
                dst, src, max_value, reduction = running_sum(reduce_cmd, reduce_init, reduce_res),
            }
            iota(
                dst: Tile, pattern: Pairs, offset: IntegerOrRegister = 0, channel_multiplier: Integer = 0,
            ) Elementwise on GpSimd => Iota { dst, affine = affine(pattern, offset, channel_multiplier) }
            local_gather(
                dst: Tile, src_buffer: Tile, index: Tile, num_elem_per_idx: Count = 1,
                num_valid_indices: MaybeCount = None,
            ) GatherSelect on GpSimd => LocalGather { dst, src_buffer, index, num_elem_per_idx, num_valid_indices }
            max8(dst: Tile, src: Tile) Reduction on Vector => Max8 { dst, src }
            memset(
                dst: Tile, value: Number, engine: MaybeEngine = None,
            ) CopySet on Vector | GpSimd => Memset { dst, value, engine }
            nc_find_index8(dst: Tile, data: Tile, vals: Tile) GatherSelect on Vector => FindIndex8 { dst, data, vals }
            nc_match_replace8(
                dst: Tile, data: Tile, vals: Tile, imm: Number, dst_idx: MaybeTile = None,
            ) GatherSelect on Vector => MatchReplace8 { dst, data, vals, imm, dst_idx }
            nc_matmul(
                dst: Tile, stationary: Tile, moving: Tile, is_stationary_onezero: Flag = false,
                is_moving_onezero: Flag = false, is_transpose: Flag = false, accumulate: MaybeFlag = None,
                tile: MaybeArrayTile = None, double_row: Flag = false,
            ) Matmul on Tensor => NcMatmul {
                dst, stationary, moving, is_stationary_onezero, is_moving_onezero, is_transpose, accumulate, tile,
                double_row,
            }
            nc_matmul_mx(
                dst: Tile, stationary: Tile, moving: Tile, stationary_scale: Tile, moving_scale: Tile,
                tile: MaybeArrayTile = None, accumulate: MaybeFlag = None,
            ) Matmul on Tensor => NcMatmulMx {
                dst, stationary, moving, stationary_scale, moving_scale, tile, accumulate,
            }
            nc_matmul_sparse(
                dst: Tile, stationary: Tile, moving: Tile, tags: Tile, pattern: SparsityPattern,
                accumulate: MaybeFlag = None,
            ) Matmul on Tensor => NcMatmulSparse { dst, stationary, moving, tags, pattern, accumulate }
            nc_n_gather(dst: Tile, data: Tile, indices: Tile) GatherSelect on GpSimd => NcNGather { dst, data, indices }
            nc_stream_shuffle(
                dst: Tile, src: Tile, shuffle_mask: Integers,
            ) GatherSelect on Vector => StreamShuffle { dst, src, mask = renamed(shuffle_mask) }
            nc_transpose(
                dst: Tile, data: Tile, engine: MaybeEngine = None,
            ) Transpose on Tensor | Vector => NcTranspose { dst, data, engine }
            nonzero_with_count(
                dst: Tile, src: Tile, index_offset: Integer = 0, padding_val: Integer = (-1),
            ) GatherSelect on GpSimd => NonzeroWithCount { dst, src, index_offset, padding_val, firsts := None }
            quantize_mx(
                dst: Tile, src: Tile, dst_scale: Tile, ocp_rule: Flag = false,
            ) Quantise on Vector => QuantizeMx { dst, src, dst_scale, ocp_rule }
            rand2(dst: Tile, min: Scalar, max: Scalar) CopySet on Vector => Rand2 { dst, min, max }
            rand_get_state(
                dst: Tile, engine: NamedEngine = "gpsimd",
            ) CopySet on GpSimd | Vector => RandGetState { dst, engine }
            rand_set_state(
                src_seeds: Tile, engine: NamedEngine = "gpsimd",
            ) CopySet on GpSimd | Vector => RandSetState { src_seeds, engine }
            range_select(
                dst: Tile, on_true_tile: Tile, comp_op0: Op, comp_op1: Op, bound0: Tile, bound1: Tile,
                reduce_cmd: Command = "reset_reduce", reduce_res: MaybeTile = None, reduce_op: Op = "maximum",
                range_start: Integer = 0, on_false_value: Number = (-3.4028234663852886e38),
            ) GatherSelect on Vector => RangeSelect {
                dst, on_true = renamed(on_true_tile), comp_op0, comp_op1, bound0, bound1,
                reduction = reduction(reduce_op, reduce_cmd, reduce_res), range_start, on_false_value,
            }
            reciprocal(dst: Tile, data: Tile) Elementwise on Vector => Reciprocal { dst, data }
            register_load(dst: Register, src: Tile) Control on Sync => RegisterLoad { dst, src }
            register_move(dst: Register, src: IntegerOrRegister) Control on Sync => RegisterMove { dst, src }
            register_store(dst: Tile, src: Register) Control on Sync => RegisterStore { dst, src }
            rng(dst: Tile, engine: NamedEngine = "vector") CopySet on Vector | GpSimd => Rng { dst, engine }
            scalar_tensor_tensor(
                dst: Tile, data: Tile, op0: Op, operand0: Scalar, op1: Op, operand1: Tile, reverse0: Flag = false,
                reverse1: Flag = false,
            ) Elementwise on Vector => ScalarTensorTensor {
                dst, data, op0, operand0, op1, operand1, reverse0, reverse1,
            }
            select_reduce(
                dst: Tile, predicate: Tile, on_true: Tile, on_false: Scalar, reduce_res: MaybeTile = None,
                reduce_cmd: Command = "idle", reduce_op: Op = "maximum", reverse_pred: Flag = false,
            ) Reduction on Vector => SelectReduce {
                dst, predicate, on_true, on_false, reduction = reduction(reduce_op, reduce_cmd, reduce_res), reverse_pred,
            }
            sequence_bounds(
                dst: Tile, segment_ids: Tile,
            ) GatherSelect on GpSimd => SequenceBounds { dst, segment_ids }
            set_rng_seed(src_seeds: Tile) CopySet on Vector => SetRngSeed { src_seeds }
            #[cfg(feature = "example-instruction")]
            tensor_clamp(
                dst: Tile, data: Tile, limit: Number = 1.0,
            ) Elementwise on Vector => TensorClamp { dst, data, limit }
            tensor_copy(
                dst: Tile, src: Tile, engine: MaybeEngine = None,
            ) CopySet on Vector | Scalar | GpSimd => TensorCopy { dst, src, engine }
            tensor_copy_predicated(
                dst: Tile, src: NumberOrTile, predicate: Tile, reverse_pred: Flag = false,
            ) CopySet on Vector => TensorCopyPredicated { dst, src, predicate, reverse_pred }
            tensor_partition_reduce(
                dst: Tile, op: Op, data: Tile,
            ) Reduction on GpSimd => TensorPartitionReduce { dst, op, data }
            tensor_reduce(
                dst: Tile, op: Op, data: Tile, axis: Axes, negate: Flag = false, keepdims: Flag = false,
            ) Reduction on Vector => TensorReduce { dst, op, data, axes = renamed(axis), negate, keepdims }
            tensor_scalar(
                dst: Tile, data: Tile, op0: Op, operand0: Scalar, reverse0: Flag = false, op1: MaybeOp = None,
                operand1: Scalar = None, reverse1: Flag = false, engine: MaybeEngine = None,
            ) Elementwise on Vector | Scalar | GpSimd => TensorScalar {
                dst, data, op0, operand0, reverse0, op1, operand1, reverse1, engine,
            }
            tensor_scalar_cumulative(
                dst: Tile, src: Tile, op0: Op, op1: Op, imm0: Scalar, imm1: Scalar = None,
                reduce_cmd: Command = "reset_reduce",
            ) Reduction on Vector => TensorScalarCumulative {
                dst, src, op0, op1, imm0, imm1, command = renamed(reduce_cmd),
            }
            tensor_scalar_reduce(
                dst: Tile, data: Tile, op0: Op, operand0: Scalar, reduce_op: Op, reduce_res: MaybeTile = None,
                reverse0: Flag = false, reduce_cmd: Command = "reset_reduce", reduce_init: Scalar = None,
                reduce_res_negate: Flag = false,
            ) Reduction on Vector => TensorScalarReduce {
                dst, data, op0, operand0, reverse0,
                reduction = whole_reduction(reduce_op, reduce_cmd, reduce_init, reduce_res, reduce_res_negate),
            }
            tensor_tensor(
                dst: Tile, data1: Tile, data2: Tile, op: Op, engine: MaybeEngine = None,
            ) Elementwise on Vector | GpSimd => TensorTensor { dst, data1, data2, op, engine }
            tensor_tensor_scan(
                dst: Tile, data0: Tile, data1: Tile, initial: Scalar, op0: Op, op1: Op, reverse0: Flag = false,
                reverse1: Flag = false,
            ) Reduction on Vector => TensorTensorScan { dst, data0, data1, initial, op0, op1, reverse0, reverse1 }
            topk(
                val_dst: Tile, idx_dst: Tile, src: Tile, n: Count,
            ) Reduction on GpSimd => TopK { val_dst, idx_dst, src, n }
        }
    };
}

/// Gives what the cores of a logical core run together to a macro; rows as of [`instructions!`](crate::instructions) up to
/// the engines.
#[macro_export]
macro_rules! meetings {
    ($callback:ident) => {
        $callback! {
            core_barrier(data: Tile, engine: MaybeEngine = "gpsimd") Control on GpSimd | Tensor | Vector | Scalar | Sync
            sendrecv(src: Tile, dst: Tile, dma_engine: DmaEngine = "dma") Dma on Dma | GpSimd
        }
    };
}
