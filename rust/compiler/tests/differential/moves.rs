//! What programs are made of: registers, addresses that are known only when an instruction executes, and transfers.

use serde_json::json;

use crate::generator::{Generator, ROWS};

/// A register that the program or an instruction sets: a row of an input.
fn set_register(made: &mut Generator) -> usize {
    let (number, value) = (made.dice.below(3), made.dice.below(ROWS));
    match made.dice.below(4) {
        0 | 1 => made.mark(json!({"op": "set_register", "register": number, "value": value})),
        2 => made.push(json!({"op": "register_move", "dst": number, "src": value})),
        _ => {
            let tile = made.open("sbuf", &[1, 1], "int32");
            made.push(
                json!({"op": "iota", "dst": tile, "pattern": [[1, 1]], "offset": value, "channel_multiplier": 0}),
            );
            made.push(json!({"op": "register_load", "dst": number, "src": tile}));
        }
    }
    number
}

pub(crate) fn register(made: &mut Generator) {
    let number = set_register(made);
    if made.dice.chance(50) {
        let dst = made.target("float32", made.width);
        made.push(json!({"op": "iota", "dst": dst, "pattern": [[1, made.width]], "offset": {"register": number},
                         "channel_multiplier": 1}));
    }
    if made.dice.chance(40) {
        let tile = made.open("sbuf", &[1, 1], "int32");
        made.push(json!({"op": "register_store", "dst": tile, "src": number}));
        let mut out = made.output(1);
        out["shape"] = json!([1, 1]);
        made.push(json!({"op": "dma_copy", "dst": out, "src": tile}));
    }
    if made.dice.chance(30) {
        let other = made.dice.below(3);
        made.push(json!({"op": "register_move", "dst": other, "src": {"register": number}}));
    }
}

/// Rows from an address that a register holds, or an element of a tile.
pub(crate) fn dynamic(made: &mut Generator) {
    let width = made.width;
    let dynamic = if made.dice.chance(60) {
        let register = set_register(made);
        json!({"register": register, "stride": 2 * width, "bound": ROWS})
    } else {
        let tile = made.open("sbuf", &[1, 1], "uint32");
        let step = json!({"op": "iota", "dst": tile, "pattern": [[1, 1]], "offset": made.dice.below(ROWS), "channel_multiplier": 0});
        made.push(step);
        json!({"element": tile, "stride": 2 * width, "bound": ROWS})
    };
    let tile = made.open("sbuf", &[1, width], "float32");
    let from = made.dice.pick(&["x", "y"]);
    let src = json!({"tensor": from, "shape": [1, width], "strides": [2 * width, 1], "offset": 0, "dtype": "float32", "dynamic": dynamic});
    made.push(json!({"op": "dma_copy", "dst": tile, "src": src}));
    let mut out = made.output(width);
    out["shape"] = json!([1, width]);
    made.push(json!({"op": "dma_copy", "dst": out, "src": tile}));
}

/// Rows that an index tile picks: read, and written.
pub(crate) fn indirect(made: &mut Generator) {
    let rows = rows(made);
    let width = made.width;
    if made.dice.chance(60) {
        let dst = made.target("float32", width);
        let src = json!({"tensor": made.dice.pick(&["x", "y"]), "shape": [ROWS, width], "strides": [2 * width, 1], "offset": 0,
                         "dtype": "float32", "dynamic": {"rows": rows, "stride": 2 * width, "bound": ROWS}});
        made.push(json!({"op": "dma_copy", "dst": dst, "src": src}));
    } else {
        let data = made.source_in("float32", width, false);
        let mut out = made.output(width);
        out["dynamic"] = json!({"rows": rows, "stride": width, "bound": ROWS});
        made.push(json!({"op": "dma_copy", "dst": out, "src": data}));
    }
}

pub(crate) fn store(made: &mut Generator) {
    let width = made.some_width();
    let src = made.source_in("float32", width, false);
    let dst = made.output(width);
    made.push(json!({"op": "dma_copy", "dst": dst, "src": src}));
}

pub(crate) fn through_hbm(made: &mut Generator) {
    let width = made.width;
    let src = made.source_in("float32", width, false);
    let there = made.scratch(width);
    made.push(json!({"op": "dma_copy", "dst": there, "src": src}));
    let dst = made.target("float32", width);
    made.push(json!({"op": "dma_copy", "dst": dst, "src": there}));
}

pub(crate) fn dma_transpose(made: &mut Generator) {
    let width = made.width;
    let dst = made.open("sbuf", &[width, ROWS], "float32");
    let src = json!({"tensor": made.dice.pick(&["x", "y"]), "shape": [ROWS, width], "strides": [2 * width, 1], "offset": 0, "dtype": "float32"});
    made.push(json!({"op": "dma_transpose", "dst": dst, "src": src}));
    made.keep(&dst, "float32", width, ROWS, false);
}

pub(crate) fn dma_compute(made: &mut Generator) {
    let width = made.width;
    let srcs = [made.source_in("float32", width, false), made.source_in("float32", width, false)];
    let dst = made.target("float32", width);
    made.push(json!({"op": "dma_compute", "dst": dst, "srcs": srcs, "reduce_op": "add"}));
}

/// A tile of row numbers.
fn rows(made: &mut Generator) -> String {
    let known: Vec<String> = made.tiles.iter().filter(|tile| tile.is_index).map(|tile| tile.name.clone()).collect();
    if !known.is_empty() && made.dice.chance(60) {
        return made.dice.pick(&known);
    }
    let name = made.open("sbuf", &[ROWS, 1], "uint32");
    if made.dice.chance(50) {
        made.push(json!({"op": "dma_copy", "dst": name, "src": "rows"}));
    } else {
        made.push(json!({"op": "iota", "dst": name, "pattern": [[1, 1]], "offset": 0, "channel_multiplier": 1}));
    }
    made.keep_index(&name, "uint32");
    name
}
