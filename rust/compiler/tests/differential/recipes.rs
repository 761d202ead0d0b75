//! What programs are made of: each instruction of the table, over tiles that fit it.

use serde_json::{Value, json};

use crate::generator::{Generator, ROWS};
use crate::moves::{dma_compute, dma_transpose, dynamic, indirect, register, store, through_hbm};

/// Adds one or a few instructions.
pub(crate) type Recipe = fn(&mut Generator);

/// Recipes, and how often each is taken.
pub(crate) const RECIPES: &[(usize, Recipe)] = &[
    (5, copy),
    (6, tensor_tensor),
    (8, tensor_scalar),
    (3, scalar_tensor_tensor),
    (3, memset),
    (2, reciprocal),
    (5, activation),
    (2, activate2),
    (3, activation_sum),
    (2, activation_reduce),
    (2, exponential),
    (3, reduce),
    (2, scalar_reduce),
    (2, scan),
    (2, cumulative),
    (2, statistics),
    (2, select),
    (2, predicated),
    (2, range_select),
    (2, search),
    (2, affine),
    (2, iota),
    (2, gather),
    (1, shuffle),
    (9, matmul),
    (4, transpose),
    (2, mx),
    (2, sparse),
    (2, partition_reduce),
    (1, sequence_bounds),
    (1, nonzero),
    (1, topk),
    (3, random),
    (2, dropout),
    (1, random_state),
    (3, register),
    (3, dynamic),
    (3, indirect),
    (5, store),
    (3, through_hbm),
    (2, dma_transpose),
    (2, dma_compute),
];

const OPERATORS: [&str; 6] = ["add", "subtract", "multiply", "maximum", "minimum", "greater"];
const FLOATS: [&str; 3] = ["float32", "float32", "bfloat16"];

fn copy(made: &mut Generator) {
    let width = made.some_width();
    let dtype = made.dice.pick(&FLOATS);
    let src = made.source(dtype, width);
    let to = if made.dice.chance(70) { dtype } else { made.dice.pick(&["float32", "bfloat16", "float16"]) };
    let dst = made.target(to, width);
    let mut step = json!({"op": "tensor_copy", "dst": dst, "src": src});
    made.choose_engine(&mut step, &["vector", "scalar", "gpsimd"]);
    made.push(step);
}

fn tensor_tensor(made: &mut Generator) {
    let width = made.some_width();
    let kinds = [made.dice.pick(&FLOATS), made.dice.pick(&FLOATS)];
    let (data1, data2) = (made.source(kinds[0], width), made.source(kinds[1], width));
    let to = made.dice.pick(&FLOATS);
    let dst = made.target(to, width);
    let mut step = json!({"op": "tensor_tensor", "dst": dst, "data1": data1, "data2": data2});
    step["function"] = made.dice.pick(&OPERATORS).into();
    made.choose_engine(&mut step, &["vector", "gpsimd"]);
    made.push(step);
}

fn tensor_scalar(made: &mut Generator) {
    let width = made.some_width();
    let dtype = made.dice.pick(&FLOATS);
    let data = made.source(dtype, width);
    let dst = if made.dice.chance(20) { data.clone() } else { made.target(dtype, width) };
    let mut step = json!({"op": "tensor_scalar", "dst": dst, "data": data});
    step["op0"] = made.dice.pick(&OPERATORS).into();
    step["operand0"] = made.scalar();
    if made.dice.chance(40) {
        step["op1"] = made.dice.pick(&OPERATORS).into();
        step["operand1"] = made.scalar();
        step["reverse1"] = made.dice.chance(20).into();
    }
    made.choose_engine(&mut step, &["vector", "scalar"]);
    made.push(step);
}

fn scalar_tensor_tensor(made: &mut Generator) {
    let width = made.some_width();
    let (data, operand1) = (made.source("float32", width), made.source("float32", width));
    let operand0 = made.scalar();
    let dst = made.target("float32", width);
    let ops = [made.dice.pick(&OPERATORS), made.dice.pick(&OPERATORS)];
    made.push(json!({"op": "scalar_tensor_tensor", "dst": dst, "data": data, "op0": ops[0], "operand0": operand0,
                     "op1": ops[1], "operand1": operand1}));
}

fn memset(made: &mut Generator) {
    let width = made.some_width();
    let dtype = made.dice.pick(&FLOATS);
    let dst = made.target(dtype, width);
    let mut step = json!({"op": "memset", "dst": dst, "value": made.dice.pick(&[0.0, 0.0, 1.0, -2.5])});
    made.choose_engine(&mut step, &["vector", "gpsimd"]);
    made.push(step);
}

fn reciprocal(made: &mut Generator) {
    let width = made.some_width();
    let data = made.source("float32", width);
    let dst = made.target("float32", width);
    made.push(json!({"op": "reciprocal", "dst": dst, "data": data}));
}

fn activation(made: &mut Generator) {
    let width = made.some_width();
    let dtype = made.dice.pick(&FLOATS);
    let data = made.source(dtype, width);
    let to = made.dice.pick(&FLOATS);
    let dst = made.target(to, width);
    let function = made.dice.pick(&["exp", "tanh", "relu", "square", "sigmoid", "copy"]);
    let mut step = json!({"op": "activation", "dst": dst, "function": function, "data": data});
    if made.dice.chance(50) {
        step["bias"] = made.column();
    }
    if made.dice.chance(50) {
        step["scale"] = made.dice.number().into();
    }
    made.push(step);
}

fn activate2(made: &mut Generator) {
    let width = made.some_width();
    let data = made.source("float32", width);
    let dst = made.target("float32", width);
    let numbers = [made.dice.number(), made.dice.number()];
    made.push(json!({"op": "activate2", "dst": dst, "function": "square", "data": data, "imm0": numbers[0],
                     "imm1": numbers[1], "op0": "multiply", "op1": "add"}));
}

/// A sum that goes on in the engine's registers from one instruction to the next.
fn activation_sum(made: &mut Generator) {
    let width = made.some_width();
    let parts = 1 + made.dice.below(3);
    for part in 0..parts {
        let data = made.source("float32", width);
        let dst = made.target("float32", width);
        let command = if part == 0 { "reset_reduce" } else { "reduce" };
        let mut step = json!({"op": "activation", "dst": dst, "function": "square", "data": data, "reduce_op": "add",
                              "reduce_cmd": command});
        if part + 1 == parts {
            let sum = made.new_column("float32");
            step["reduce_res"] = sum.clone().into();
            made.push(step);
            made.keep(&sum, "float32", ROWS, 1, false);
        } else {
            made.push(step);
        }
    }
}

fn activation_reduce(made: &mut Generator) {
    let width = made.some_width();
    let data = made.source("float32", width);
    let dst = made.target("float32", width);
    let sum = made.new_column("float32");
    made.push(json!({"op": "activation_reduce", "dst": dst, "function": "square", "data": data, "reduce_op": "add",
                     "reduce_res": sum}));
    made.keep(&sum, "float32", ROWS, 1, false);
}

fn exponential(made: &mut Generator) {
    let width = made.some_width();
    let src = made.source("float32", width);
    let max_value = made.scalar();
    let dst = made.target("float32", width);
    let sum = made.new_column("float32");
    made.push(
        json!({"op": "exponential", "dst": dst, "src": src, "max_value": max_value, "reduce_cmd": "reset_reduce",
                     "reduce_res": sum}),
    );
    made.keep(&sum, "float32", ROWS, 1, false);
}

fn reduce(made: &mut Generator) {
    let width = made.some_width();
    let data = made.source("float32", width);
    let dst = made.new_column("float32");
    let op = made.dice.pick(&["add", "maximum", "minimum"]);
    made.push(json!({"op": "tensor_reduce", "dst": dst, "function": op, "data": data, "axis": [1]}));
    made.keep(&dst, "float32", ROWS, 1, false);
}

fn scalar_reduce(made: &mut Generator) {
    let width = made.some_width();
    let data = made.source("float32", width);
    let operand0 = made.scalar();
    let dst = made.target("float32", width);
    let sum = made.new_column("float32");
    made.push(json!({"op": "tensor_scalar_reduce", "dst": dst, "data": data, "op0": "multiply", "operand0": operand0,
                     "reduce_op": "add", "reduce_res": sum}));
    made.keep(&sum, "float32", ROWS, 1, false);
}

fn scan(made: &mut Generator) {
    let width = made.some_width();
    let (data0, data1) = (made.source("float32", width), made.source("float32", width));
    let initial = made.scalar();
    let dst = made.target("float32", width);
    made.push(json!({"op": "tensor_tensor_scan", "dst": dst, "data0": data0, "data1": data1, "initial": initial,
                     "op0": "multiply", "op1": "add"}));
}

fn cumulative(made: &mut Generator) {
    let width = made.some_width();
    let src = made.source("float32", width);
    let dst = made.target("float32", width);
    let command = made.dice.pick(&["reset_reduce", "reduce"]);
    let step = json!({"op": "tensor_scalar_cumulative", "dst": dst, "src": src, "op0": "multiply", "op1": "add",
                     "imm0": made.dice.number(), "reduce_cmd": command});
    made.push(step);
}

fn statistics(made: &mut Generator) {
    let data = made.source("float32", made.width);
    let dst = made.open("sbuf", &[ROWS, 6], "float32");
    made.push(json!({"op": "bn_stats", "dst": dst, "data": data}));
    made.keep(&dst, "float32", ROWS, 6, false);
    let both = made.open("sbuf", &[ROWS, 2], "float32");
    made.push(json!({"op": "bn_aggr", "dst": both, "data": dst}));
    made.keep(&both, "float32", ROWS, 2, false);
}

fn predicate(made: &mut Generator) -> String {
    let data = made.source("float32", made.width);
    let dst = made.open("sbuf", &[ROWS, made.width], "uint8");
    let number = made.dice.number();
    made.push(json!({"op": "tensor_scalar", "dst": dst, "data": data, "op0": "greater", "operand0": number}));
    dst
}

fn select(made: &mut Generator) {
    let predicate = predicate(made);
    let on_true = made.source("float32", made.width);
    let on_false = made.scalar();
    let dst = made.target("float32", made.width);
    let mut step =
        json!({"op": "select_reduce", "dst": dst, "predicate": predicate, "on_true": on_true, "on_false": on_false});
    if made.dice.chance(50) {
        let largest = made.new_column("float32");
        step["reduce_cmd"] = "reset_reduce".into();
        step["reduce_res"] = largest.clone().into();
        made.push(step);
        made.keep(&largest, "float32", ROWS, 1, false);
    } else {
        made.push(step);
    }
}

fn predicated(made: &mut Generator) {
    let predicate = predicate(made);
    let src = made.source("float32", made.width);
    let src = match src {
        Value::String(name) => {
            json!({"tensor": name, "shape": [ROWS, made.width], "strides": [made.width, 1], "offset": 0, "dtype": "float32"})
        }
        other => other,
    };
    // It leaves elements as they are: what it writes to holds some.
    let Some(tile) = made.known("float32", made.width, false).filter(|tile| tile.is_free) else { return };
    let dst = made.fresh_target("float32", made.width);
    let from = made.part(&tile, made.width);
    made.push(json!({"op": "tensor_copy", "dst": dst, "src": from}));
    let step = json!({"op": "tensor_copy_predicated", "dst": dst, "src": src, "predicate": predicate,
                     "reverse_pred": made.dice.chance(50)});
    made.push(step);
}

fn range_select(made: &mut Generator) {
    let on_true = made.source("float32", made.width);
    let (bound0, bound1) = (made.column(), made.column());
    let dst = made.target("float32", made.width);
    let largest = made.new_column("float32");
    made.push(json!({"op": "range_select", "dst": dst, "on_true_tile": on_true, "comp_op0": "greater_equal",
                     "comp_op1": "less", "bound0": bound0, "bound1": bound1, "reduce_res": largest}));
    made.keep(&largest, "float32", ROWS, 1, false);
}

fn search(made: &mut Generator) {
    let data = made.source("float32", made.width);
    let vals = made.open("sbuf", &[ROWS, 8], "float32");
    made.push(json!({"op": "max8", "dst": vals, "src": data}));
    made.keep(&vals, "float32", ROWS, 8, false);
    let at = made.open("sbuf", &[ROWS, 8], "uint32");
    made.push(json!({"op": "nc_find_index8", "dst": at, "data": data, "vals": vals}));
    made.keep(&at, "uint32", ROWS, 8, false);
    let dst = made.target("float32", made.width);
    let step = json!({"op": "nc_match_replace8", "dst": dst, "data": data, "vals": vals, "imm": made.dice.number()});
    made.push(step);
}

fn affine(made: &mut Generator) {
    let on_true = made.source_in("float32", made.width, false);
    let dst = made.target("float32", made.width);
    let step = json!({"op": "affine_select", "dst": dst, "pattern": [[-1, made.width]], "offset": made.dice.below(9),
                     "channel_multiplier": 1, "on_true_tile": on_true, "on_false_value": made.dice.number(),
                     "cmp_op": "greater_equal"});
    made.push(step);
}

fn iota(made: &mut Generator) {
    let (dst, first) = (made.target("float32", made.width), made.dice.below(5));
    made.push(
        json!({"op": "iota", "dst": dst, "pattern": [[1, made.width]], "offset": first, "channel_multiplier": 2}),
    );
}

fn gather(made: &mut Generator) {
    let data = made.source_in("float32", made.width, false);
    let indices = made.open("sbuf", &[ROWS, made.width], "uint32");
    made.push(
        json!({"op": "iota", "dst": indices, "pattern": [[1, made.width]], "offset": 0, "channel_multiplier": 0}),
    );
    let dst = made.target("float32", made.width);
    made.push(json!({"op": "nc_n_gather", "dst": dst, "data": data, "indices": indices}));
    if made.width >= 16 {
        let picks = made.open("sbuf", &[ROWS, 2], "uint16");
        made.push(json!({"op": "iota", "dst": picks, "pattern": [[1, 2]], "offset": 0, "channel_multiplier": 0}));
        let data = made.source_in("float32", made.width, false);
        let dst = made.fresh_target("float32", 32);
        made.push(json!({"op": "local_gather", "dst": dst, "src_buffer": data, "index": picks}));
    }
}

fn shuffle(made: &mut Generator) {
    let src = made.source_in("float32", made.width, false);
    let dst = made.target("float32", made.width);
    let mask: Vec<usize> = (0..ROWS).map(|row| row * 7 % ROWS).collect();
    made.push(json!({"op": "nc_stream_shuffle", "dst": dst, "src": src, "shuffle_mask": mask}));
}

/// One sum or several in one tensor of PSUM, and what becomes of it.
fn matmul(made: &mut Generator) {
    let rows = made.dice.pick(&[16, ROWS, ROWS]).min(made.width);
    let width = made.width;
    let dst = made.open("psum", &[rows, width], "float32");
    let turns = 1 + made.dice.below(2);
    for turn in 0..turns {
        if turn > 0 && made.dice.chance(60) {
            made.mark(json!({"op": "fresh", "tensor": dst}));
        }
        let fills = made.dice.chance(15);
        if fills {
            made.push(json!({"op": "memset", "dst": dst, "value": 0.0}));
        }
        let flags = made.dice.chance(50);
        let parts = 1 + made.dice.below(3);
        for part in 0..parts {
            let dtype = made.dice.pick(&["bfloat16", "bfloat16", "float32"]);
            let (stationary, moving) = (made.source_in(dtype, rows, false), made.source_in(dtype, width, false));
            let mut step = json!({"op": "nc_matmul", "dst": dst, "stationary": stationary, "moving": moving});
            if flags {
                step["accumulate"] = (part > 0 || fills).into();
            }
            made.push(step);
        }
        if made.dice.chance(60) {
            leave_psum(made, &dst, rows, width);
        }
    }
    if rows == ROWS {
        made.keep(&dst, "float32", ROWS, width, true);
    }
}

fn leave_psum(made: &mut Generator, name: &str, rows: usize, width: usize) {
    let dtype = made.dice.pick(&FLOATS);
    let dst = made.open("sbuf", &[rows, width], dtype);
    let mut step = json!({"op": "tensor_copy", "dst": dst, "src": name});
    made.choose_engine(&mut step, &["vector", "scalar"]);
    made.push(step);
    made.keep(&dst, dtype, rows, width, false);
    if rows != ROWS && made.dice.chance(50) {
        let mut out = made.output(width);
        out["shape"] = json!([rows, width]);
        made.push(json!({"op": "dma_copy", "dst": out, "src": dst}));
    }
}

fn transpose(made: &mut Generator) {
    let width = made.width;
    let by_tensor = made.dice.chance(60);
    let dtype = made.dice.pick(&FLOATS);
    let data = made.source_in(dtype, width, false);
    if by_tensor {
        let dst = made.open("psum", &[width, ROWS], dtype);
        made.push(json!({"op": "nc_transpose", "dst": dst, "data": data, "engine": "tensor"}));
        leave_psum(made, &dst, width, ROWS);
    } else {
        let (data, width) = (data_of(made, dtype, width, data), width.min(ROWS));
        let dst = made.open("sbuf", &[width, ROWS], dtype);
        made.push(json!({"op": "nc_transpose", "dst": dst, "data": data, "engine": "vector"}));
        made.keep(&dst, dtype, width, ROWS, false);
    }
}

fn mx(made: &mut Generator) {
    if made.width != 64 {
        return matmul(made);
    }
    let src = made.source_in("bfloat16", 64, false);
    let dst = made.open("sbuf", &[ROWS, 16], "float8_e4m3fn_x4");
    let scale = made.open("sbuf", &[4, 16], "uint8");
    made.push(json!({"op": "quantize_mx", "dst": dst, "src": src, "dst_scale": scale}));
    let product = made.open("psum", &[16, 16], "float32");
    for part in 0..=made.dice.below(2) {
        let mut step = json!({"op": "nc_matmul_mx", "dst": product, "stationary": dst, "moving": dst,
                              "stationary_scale": scale, "moving_scale": scale});
        if made.dice.chance(50) {
            step["accumulate"] = (part > 0).into();
        }
        made.push(step);
    }
    leave_psum(made, &product, 16, 16);
}

fn sparse(made: &mut Generator) {
    if made.width < 32 {
        return matmul(made);
    }
    let stationary = made.source_in("bfloat16", 16, false);
    let Some(tile) = made.known("bfloat16", 32, false) else { return };
    let tags = made.open("sbuf", &[ROWS, 4], "uint16");
    made.push(json!({"op": "dma_copy", "dst": tags, "src": "tags"}));
    let moving = json!({"tensor": tile.name, "shape": [ROWS, 2, 16], "strides": [tile.width, 16, 1], "offset": 0, "dtype": "bfloat16"});
    let product = made.open("psum", &[16, 16], "float32");
    made.push(
        json!({"op": "nc_matmul_sparse", "dst": product, "stationary": stationary, "moving": moving, "tags": tags,
                     "pattern": "4:8"}),
    );
    leave_psum(made, &product, 16, 16);
}

fn partition_reduce(made: &mut Generator) {
    let data = made.source_in("float32", made.width, false);
    let dst = made.open("sbuf", &[1, made.width], "float32");
    made.push(json!({"op": "tensor_partition_reduce", "dst": dst, "function": "add", "data": data}));
    let mut out = made.output(made.width);
    out["shape"] = json!([1, made.width]);
    made.push(json!({"op": "dma_copy", "dst": out, "src": dst}));
}

fn sequence_bounds(made: &mut Generator) {
    let ids = made.open("sbuf", &[1, made.width], "float32");
    made.push(json!({"op": "iota", "dst": ids, "pattern": [[1, made.width]], "offset": 1, "channel_multiplier": 0}));
    let dst = made.open("sbuf", &[1, 2, made.width], "float32");
    made.push(json!({"op": "sequence_bounds", "dst": dst, "segment_ids": ids}));
    let out = made.output(made.width);
    let out = json!({"tensor": out["tensor"], "shape": [1, 2, made.width], "strides": [1, made.width, 1],
                     "offset": out["offset"], "dtype": "float32"});
    made.push(json!({"op": "dma_copy", "dst": out, "src": dst}));
}

fn nonzero(made: &mut Generator) {
    let src = made.source_in("float32", made.width, false);
    let dst = made.open("sbuf", &[ROWS, made.width + 1], "int32");
    made.push(json!({"op": "memset", "dst": dst, "value": -1.0}));
    made.push(json!({"op": "nonzero_with_count", "dst": dst, "src": src}));
    let out = made.output(made.width);
    let part = json!({"tensor": dst, "shape": [ROWS, made.width], "strides": [made.width + 1, 1], "offset": 0, "dtype": "int32"});
    made.push(json!({"op": "dma_copy", "dst": out, "src": part}));
}

fn topk(made: &mut Generator) {
    let src = made.source_in("bfloat16", made.width, false);
    let val = made.open("sbuf", &[ROWS, 8], "bfloat16");
    let idx = made.open("sbuf", &[ROWS, 8], "uint32");
    made.push(json!({"op": "topk", "val_dst": val, "idx_dst": idx, "src": src, "n": 8 * ROWS}));
    made.keep(&val, "bfloat16", ROWS, 8, false);
    made.keep(&idx, "uint32", ROWS, 8, false);
}

fn random(made: &mut Generator) {
    if made.dice.chance(50) {
        let dst = made.target("uint32", made.width);
        let engine = made.dice.pick(&["vector", "gpsimd"]);
        made.push(json!({"op": "rng", "dst": dst, "engine": engine}));
    } else {
        let dst = made.target("float32", made.width);
        made.push(json!({"op": "rand2", "dst": dst, "min": -1.0, "max": 2.0}));
    }
}

fn dropout(made: &mut Generator) {
    let data = made.source("float32", made.width);
    let dst = made.target("float32", made.width);
    made.push(json!({"op": "dropout", "dst": dst, "data": data, "prob": 0.4}));
}

fn random_state(made: &mut Generator) {
    let seeds = made.open("sbuf", &[ROWS, 24], "uint32");
    if made.dice.chance(50) {
        made.push(json!({"op": "rand_get_state", "dst": seeds, "engine": "vector"}));
        made.keep(&seeds, "uint32", ROWS, 24, false);
    } else {
        made.push(json!({"op": "iota", "dst": seeds, "pattern": [[1, 24]], "offset": 1, "channel_multiplier": 3}));
        let whole = json!(seeds);
        if made.dice.chance(50) {
            made.push(json!({"op": "rand_set_state", "src_seeds": whole, "engine": "vector"}));
        } else {
            let one = json!({"tensor": seeds, "shape": [1, 1], "strides": [24, 1], "offset": 0, "dtype": "uint32"});
            made.push(json!({"op": "set_rng_seed", "src_seeds": one}));
        }
    }
}

/// VectorE turns blocks of a quadrant.
fn data_of(made: &mut Generator, dtype: &'static str, width: usize, data: Value) -> Value {
    if width > ROWS { made.source_in(dtype, ROWS, false) } else { data }
}
