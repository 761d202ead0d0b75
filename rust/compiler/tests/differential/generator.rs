//! Random programs: tensors with addresses and without, over one another, loops, stretches in the author's order.

use serde_json::{Map, Value, json};
use trn3_machine::program::{Declaration, Output, Place, Program, Role};

use crate::dice::Dice;
use crate::harness::is_instruction;
use crate::recipes::{RECIPES, Recipe};

/// Partitions of most tiles: one quadrant.
pub(crate) const ROWS: usize = 32;
/// Registers of every program.
const REGISTERS: u32 = 3;
/// Iterations that outputs have room for.
const SLICES: usize = 4;

/// A tile all of whose elements are written.
#[derive(Clone, Debug)]
pub(crate) struct Tile {
    pub(crate) name: String,
    pub(crate) dtype: &'static str,
    /// Partitions.
    pub(crate) rows: usize,
    /// Elements of a partition.
    pub(crate) width: usize,
    pub(crate) is_psum: bool,
    /// Whether it may be written again.
    pub(crate) is_free: bool,
    /// Whether it holds row numbers, or what else an address may be read from.
    pub(crate) is_index: bool,
}

/// Contents of inputs, by name.
pub(crate) type Inputs = Vec<(String, Vec<u8>)>;

/// Writes a program.
pub(crate) struct Generator {
    pub(crate) dice: Dice,
    pub(crate) program: Program,
    pub(crate) inputs: Inputs,
    pub(crate) tiles: Vec<Tile>,
    /// Elements of a partition of the widest tiles.
    pub(crate) width: usize,
    /// Instructions so far.
    pub(crate) instructions: usize,
    /// Which part of outputs is written, and whether all that is written must be the iteration's own.
    slice: usize,
    is_independent: bool,
    /// Where the present iteration's tiles begin.
    first_own: usize,
}

/// A program of a seed, and its inputs.
pub(crate) fn generate(seed: u64) -> (Program, Inputs) {
    let mut dice = Dice::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d).wrapping_add(1));
    let width = dice.pick(&[8, 16, 16, 32, 64]);
    let mut made = Generator { dice, ..Generator::new(seed, width) };
    made.declare_outside();
    made.declare_addressed();
    let blocks = 1 + made.dice.below(6);
    let draws = if made.dice.chance(4) { made.dice.below(blocks) } else { blocks };
    for block in 0..blocks {
        if block == draws {
            let seed = made.dice.below(9);
            made.mark(json!({"op": "stochastic_rounding", "seed": seed}));
        } else if block == draws + 2 {
            made.mark(json!({"op": "stochastic_rounding", "seed": null}));
        }
        made.block(0);
    }
    made.finish()
}

impl Generator {
    /// A program without steps, whose widest tiles have so many elements in a partition.
    pub(crate) fn new(seed: u64, width: usize) -> Self {
        Self {
            dice: Dice::new(seed),
            program: Program::new(&format!("random{seed}")),
            inputs: Vec::new(),
            tiles: Vec::new(),
            width,
            instructions: 0,
            slice: 0,
            is_independent: false,
            first_own: 0,
        }
    }

    /// The program, all of whose work matters, and its inputs.
    pub(crate) fn finish(mut self) -> (Program, Inputs) {
        self.store_all();
        self.program.registers = REGISTERS;
        self.program.set_version();
        (self.program, self.inputs)
    }

    /// A tensor that all cores have, of zeros.
    pub(crate) fn shared(&mut self, name: &str, shape: &[usize]) {
        self.tensor(name, "shared_hbm", shape, "float32", Role::Inout);
        self.inputs.push((name.to_owned(), vec![0; shape.iter().product::<usize>() * 4]));
    }

    fn tensor(&mut self, name: &str, space: &str, shape: &[usize], dtype: &str, role: Role) -> usize {
        self.program.tensors.push(Declaration {
            name: name.to_owned(),
            space: space.to_owned(),
            shape: shape.to_vec(),
            dtype: dtype.to_owned(),
            address: None,
            role,
            data: None,
        });
        self.program.tensors.len() - 1
    }

    /// Inputs with contents, and outputs.
    pub(crate) fn declare_outside(&mut self) {
        for name in ["x", "y"] {
            let bytes: Vec<u8> = (0..ROWS * self.width * 2)
                .flat_map(|_| if self.dice.chance(1) { f32::INFINITY } else { self.dice.number() as f32 }.to_le_bytes())
                .collect();
            self.filled(name, &[ROWS, self.width * 2], "float32", bytes);
        }
        let rows: Vec<u8> = (0..ROWS).flat_map(|_| (self.dice.below(ROWS) as u32).to_le_bytes()).collect();
        self.filled("rows", &[ROWS, 1], "uint32", rows);
        let words: Vec<u8> = (0..ROWS * self.width).flat_map(|_| (self.dice.bits() as u32).to_le_bytes()).collect();
        self.filled("words", &[ROWS, self.width], "uint32", words);
        let tags: Vec<u8> = (0..ROWS * 4).flat_map(|at| ((at / 4 % 4) as u16 * 0x1111).to_le_bytes()).collect();
        self.filled("tags", &[ROWS, 4], "uint16", tags);
        for name in ["out", "other"] {
            self.tensor(name, "hbm", &[SLICES * ROWS, self.width], "float32", Role::Inout);
            self.inputs.push((name.to_owned(), vec![0; SLICES * ROWS * self.width * 4]));
            self.program.outputs.push(Output { name: name.to_owned(), view: name.into() });
        }
        self.tensor("result", "hbm", &[ROWS, self.width], "float32", Role::Output);
        self.program.outputs.push(Output { name: "result".to_owned(), view: "result".into() });
        self.tensor("scratch", "hbm", &[SLICES * ROWS, self.width], "float32", Role::Internal);
    }

    fn filled(&mut self, name: &str, shape: &[usize], dtype: &str, bytes: Vec<u8>) {
        if self.dice.chance(80) {
            self.tensor(name, "hbm", shape, dtype, Role::Input);
            self.inputs.push((name.to_owned(), bytes));
        } else {
            let number = self.tensor(name, "hbm", shape, dtype, Role::Constant);
            self.program.tensors[number].data = Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect());
        }
    }

    /// Tiles at addresses, some over others' bytes.
    fn declare_addressed(&mut self) {
        if self.dice.chance(40) {
            return;
        }
        let bytes = self.width * 4;
        let base = self.dice.below(4) * 32;
        let whole = self.tensor("fixed", "sbuf", &[ROWS, self.width * 2], "float32", Role::Internal);
        self.program.tensors[whole].address = Some(Place::OnChip([0, base]));
        self.push(json!({"op": "memset", "dst": "fixed", "value": 1.5}));
        for (name, dtype, shift) in
            [("fixed.a", "float32", 0), ("fixed.b", "float32", bytes / 2), ("fixed.c", "bfloat16", bytes)]
        {
            let number = self.tensor(name, "sbuf", &[ROWS, self.width], dtype, Role::Internal);
            self.program.tensors[number].address = Some(Place::OnChip([0, base + shift]));
            self.tiles.push(Tile { is_free: true, ..self.described(name, dtype, ROWS, self.width) });
        }
    }

    fn described(&self, name: &str, dtype: &'static str, rows: usize, width: usize) -> Tile {
        Tile { name: name.to_owned(), dtype, rows, width, is_psum: false, is_free: true, is_index: false }
    }

    /// A few instructions: by themselves, in a loop, in the author's order.
    pub(crate) fn block(&mut self, depth: usize) {
        let kind = if depth > 1 { 0 } else { self.dice.below(10) };
        match kind {
            0..=4 => (0..=self.dice.below(4)).for_each(|_| self.recipe()),
            5..=7 => self.unroll(depth),
            8 => {
                self.program.steps.push(words(json!({"op": "no_reorder"})));
                self.block(depth + 1);
                self.program.steps.push(words(json!({"op": "end_no_reorder"})));
            }
            _ => self.again(),
        }
    }

    /// A loop whose iterations are alike: each of them is made by the same choices.
    fn unroll(&mut self, depth: usize) {
        let kind =
            self.dice.pick(&["affine_range", "affine_range", "sequential_range", "static_range", "dynamic_range"]);
        let trip = 2 + self.dice.below(SLICES - 1);
        let is_known = self.dice.chance(80);
        let mut mark = json!({"op": "loop", "kind": kind});
        if is_known {
            mark["trip"] = trip.into();
        }
        self.program.steps.push(words(mark));
        let (before, slice) = ((self.first_own, self.is_independent), self.slice);
        self.is_independent |= kind == "affine_range";
        self.first_own = self.tiles.len();
        let (start, reach) = (self.dice.clone(), self.tiles.len());
        let recipes = 1 + self.dice.below(3);
        for iteration in 0..trip {
            self.program.steps.push(words(json!({"op": "iteration"})));
            self.slice = (slice * 3 + iteration) % SLICES;
            self.dice = start.clone();
            self.dice.bits();
            for _ in 0..recipes {
                self.recipe();
            }
            if depth == 0 && self.dice.chance(20) {
                self.block(2);
            }
            // What an iteration made, others do not see.
            self.tiles.truncate(reach);
        }
        (self.first_own, self.is_independent) = before;
        self.slice = slice;
        self.program.steps.push(words(json!({"op": "end_loop"})));
    }

    /// The same instructions once more, over the same tiles.
    fn again(&mut self) {
        let count = 1 + self.dice.below(4);
        let known: Vec<_> = self.program.steps.iter().filter(|step| is_instruction(step)).cloned().collect();
        let first = self.dice.below(known.len().max(1));
        for mut step in known.into_iter().skip(first).take(count) {
            step.remove("after");
            self.push(Value::Object(step));
        }
    }

    fn recipe(&mut self) {
        let all: usize = RECIPES.iter().map(|(weight, ..)| weight).sum();
        let mut at = self.dice.below(all);
        let found = RECIPES.iter().find(|(weight, ..)| {
            let is_it = at < *weight;
            at = at.saturating_sub(*weight);
            is_it
        });
        if let Some((_, recipe)) = found {
            let recipe: Recipe = *recipe;
            recipe(self);
        }
    }

    /// Adds an instruction.
    pub(crate) fn push(&mut self, step: Value) {
        let mut step = words(step);
        if self.instructions > 2 && self.dice.chance(3) {
            step.insert("after".to_owned(), json!([self.dice.below(self.instructions)]));
        }
        if self.dice.chance(3) {
            step.insert("label".to_owned(), format!("label{}", self.instructions).into());
        }
        self.program.steps.push(step);
        self.instructions += 1;
    }

    /// Adds what is no instruction.
    pub(crate) fn mark(&mut self, step: Value) {
        self.program.steps.push(words(step));
    }

    /// A new tensor on chip without an address.
    pub(crate) fn open(&mut self, space: &str, shape: &[usize], dtype: &'static str) -> String {
        let name = format!("t{}", self.program.tensors.len());
        self.tensor(&name, space, shape, dtype, Role::Internal);
        if self.dice.chance(50) {
            self.mark(json!({"op": "fresh", "tensor": name}));
        }
        name
    }

    /// All elements of a tile are written from here on.
    pub(crate) fn keep(&mut self, name: &str, dtype: &'static str, rows: usize, width: usize, is_psum: bool) {
        self.tiles.push(Tile { is_psum, ..self.described(name, dtype, rows, width) });
    }

    /// As [`Generator::keep`], of numbers below the rows of inputs.
    pub(crate) fn keep_index(&mut self, name: &str, dtype: &'static str) {
        self.tiles.push(Tile { is_index: true, is_free: false, ..self.described(name, dtype, ROWS, 1) });
    }

    /// The view of a tile: all its rows, `width` elements of each.
    pub(crate) fn part(&mut self, tile: &Tile, width: usize) -> Value {
        let step = if tile.width >= 2 * width && self.dice.chance(20) { 2 } else { 1 };
        let first = self.dice.below(tile.width - (width - 1) * step);
        if (first, step, width) == (0, 1, tile.width) {
            return tile.name.clone().into();
        }
        json!({"tensor": tile.name, "shape": [tile.rows, width], "strides": [tile.width, step], "offset": first,
               "dtype": tile.dtype})
    }

    /// A tile of a type that some instruction wrote.
    pub(crate) fn known(&mut self, dtype: &str, width: usize, may_be_psum: bool) -> Option<Tile> {
        let fits = |tile: &&Tile| {
            let is_right = tile.dtype == dtype && tile.width >= width && tile.rows == ROWS;
            is_right && (may_be_psum || !tile.is_psum) && !tile.is_index
        };
        let found: Vec<Tile> = self.tiles.iter().filter(fits).cloned().collect();
        if found.is_empty() { None } else { Some(self.dice.pick(&found)) }
    }

    /// Something to read of a type; it is loaded or made where there is none.
    pub(crate) fn source(&mut self, dtype: &'static str, width: usize) -> Value {
        self.source_in(dtype, width, true)
    }

    pub(crate) fn source_in(&mut self, dtype: &'static str, width: usize, may_be_psum: bool) -> Value {
        let tile = match self.known(dtype, width, may_be_psum) {
            Some(tile) if self.dice.chance(85) => tile,
            _ => {
                self.load(dtype);
                self.tiles[self.tiles.len() - 1].clone()
            }
        };
        self.part(&tile, width)
    }

    /// A new tile of a type with values of an input.
    pub(crate) fn load(&mut self, dtype: &'static str) {
        let width = self.width;
        let from =
            if dtype.starts_with("uint") || dtype.starts_with("int") { "words" } else { self.dice.pick(&["x", "y"]) };
        let raw: &'static str = if from == "words" { "uint32" } else { "float32" };
        let tile = self.open("sbuf", &[ROWS, width], raw);
        let src = if from == "words" {
            json!("words")
        } else {
            let offset = self.dice.below(2) * width;
            json!({"tensor": from, "shape": [ROWS, width], "strides": [2 * width, 1], "offset": offset, "dtype": raw})
        };
        self.push(json!({"op": "dma_copy", "dst": tile, "src": src}));
        self.keep(&tile, raw, ROWS, width, false);
        if dtype != raw {
            let cast = self.open("sbuf", &[ROWS, width], dtype);
            let mut step = json!({"op": "tensor_copy", "dst": cast, "src": tile});
            self.choose_engine(&mut step, &["vector", "scalar", "gpsimd"]);
            self.push(step);
            self.keep(&cast, dtype, ROWS, width, false);
        }
    }

    /// Somewhere to write to; the second is what to call with once it is written: a new tile's name.
    pub(crate) fn target(&mut self, dtype: &'static str, width: usize) -> Value {
        let free = |tile: &(usize, Tile)| {
            let (at, tile) = tile;
            tile.dtype == dtype
                && tile.width >= width
                && tile.rows == ROWS
                && tile.is_free
                && !tile.is_index
                && !tile.is_psum
                && (!self.is_independent || *at >= self.first_own)
        };
        let found: Vec<(usize, Tile)> = self.tiles.iter().cloned().enumerate().filter(free).collect();
        if !found.is_empty() && self.dice.chance(40) {
            let (_, tile) = self.dice.pick(&found);
            return self.part(&tile, width);
        }
        self.fresh_target(dtype, width)
    }

    /// A new tile to write to.
    pub(crate) fn fresh_target(&mut self, dtype: &'static str, width: usize) -> Value {
        let name = self.open("sbuf", &[ROWS, width], dtype);
        self.keep(&name, dtype, ROWS, width, false);
        name.into()
    }

    /// One value a partition.
    pub(crate) fn column(&mut self) -> Value {
        let tile = match self.known("float32", 1, false) {
            Some(tile) => tile,
            None => {
                self.load("float32");
                self.tiles[self.tiles.len() - 1].clone()
            }
        };
        let first = self.dice.below(tile.width);
        json!({"tensor": tile.name, "shape": [ROWS, 1], "strides": [tile.width, 1], "offset": first, "dtype": "float32"})
    }

    /// A new tile of one value a partition, which nobody has written yet.
    pub(crate) fn new_column(&mut self, dtype: &'static str) -> String {
        self.open("sbuf", &[ROWS, 1], dtype)
    }

    /// A number or a column.
    pub(crate) fn scalar(&mut self) -> Value {
        if self.dice.chance(60) { json!(self.dice.number()) } else { self.column() }
    }

    /// A width that tiles have.
    pub(crate) fn some_width(&mut self) -> usize {
        if self.dice.chance(70) { self.width } else { self.width / 2 }
    }

    /// Names an engine, or leaves it open.
    pub(crate) fn choose_engine(&mut self, step: &mut Value, engines: &[&str]) {
        if self.dice.chance(30) {
            step["engine"] = self.dice.pick(engines).into();
        }
    }

    /// Rows of an output that are the present iteration's.
    pub(crate) fn output(&mut self, width: usize) -> Value {
        let tensor = self.dice.pick(&["out", "other"]);
        let slice = if self.is_independent { self.slice } else { self.dice.below(SLICES) };
        json!({"tensor": tensor, "shape": [ROWS, width], "strides": [self.width, 1],
               "offset": slice * ROWS * self.width, "dtype": "float32"})
    }

    /// The iteration's own rows of what is written and read again.
    pub(crate) fn scratch(&self, width: usize) -> Value {
        json!({"tensor": "scratch", "shape": [ROWS, width], "strides": [self.width, 1],
               "offset": self.slice * ROWS * self.width, "dtype": "float32"})
    }

    /// What was computed goes out, so that it matters.
    fn store_all(&mut self) {
        let last = self.source_in("float32", self.width, false);
        self.push(json!({"op": "dma_copy", "dst": "result", "src": last}));
        let tiles: Vec<Tile> = self
            .tiles
            .iter()
            .filter(|tile| !tile.is_psum && tile.rows == ROWS && tile.width <= self.width)
            .cloned()
            .collect();
        for (at, tile) in tiles.iter().enumerate() {
            if self.dice.chance(30) {
                continue;
            }
            let dst = json!({"tensor": "other", "shape": [ROWS, tile.width], "strides": [self.width, 1],
                             "offset": (at % SLICES) * ROWS * self.width, "dtype": "float32"});
            self.push(json!({"op": "dma_copy", "dst": dst, "src": tile.name}));
        }
    }
}

/// What a step is.
pub(crate) fn op_of(step: &Map<String, Value>) -> &str {
    step.get("op").and_then(Value::as_str).unwrap_or_default()
}

fn words(step: Value) -> Map<String, Value> {
    match step {
        Value::Object(step) => step,
        other => panic!("{other} is no step"),
    }
}
