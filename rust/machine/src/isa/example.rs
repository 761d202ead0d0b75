//! tensor_clamp: the instruction that the page on new instructions adds.

use super::wide;
use crate::arch::ArchSpec;
use crate::check::{Check, ON_CHIP};
use crate::cost;
use crate::engine::Engine;
use crate::error::Result;
use crate::isa::{Instruction, OperandRole};
use crate::state::State;
use crate::timing::work::Work;
use crate::view::View;

/// `tensor_clamp(dst, data, limit)`: dst = the smaller of data and a limit.
#[derive(Debug)]
pub struct TensorClamp {
    /// Result.
    pub dst: View,
    /// Input.
    pub data: View,
    /// What no element exceeds.
    pub limit: f64,
}

impl Instruction for TensorClamp {
    fn name(&self) -> &'static str {
        "tensor_clamp"
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        Engine::Vector
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        visit(OperandRole::Read, &self.data);
        visit(OperandRole::Write, &self.dst);
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        for (operand, view) in [("dst", &self.dst), ("data", &self.data)] {
            check.tile(operand, view, ON_CHIP)?;
            check.arithmetic(operand, view)?;
            check.no_columns(operand, view)?;
        }
        check.same_tile("data", &self.data, "dst", &self.dst)
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        let rate = cost::plain_rate(arch, arch.vector_rate, &[&self.dst, &self.data]);
        cost::vector(arch, self.dst.free_size(), rate, 0)
    }

    fn execute(&self, state: &mut State) -> Result<()> {
        let mut values = state.read(&self.data)?;
        values.iter_mut().for_each(|value| *value = value.min(self.limit as f32));
        state.write(&self.dst, &values)?;
        state.keep(values);
        Ok(())
    }

    fn execute_wide(&self, state: &mut State) -> Result<()> {
        let mut values = wide::read(state, &self.data)?;
        values.iter_mut().for_each(|value| *value = value.min(self.limit));
        state.memory.write_f64(&self.dst, &values)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::arch::ArchSpec;
    use crate::core::{CoreOptions, NeuronCore};
    use crate::program::{Limits, Program};

    /// From a step of a program, by the row alone: values, time, and the default.
    #[test]
    fn test_a_row_and_a_rule_make_an_instruction() {
        let text = r#"{"format": "trn3-program", "version": 1, "name": "clamp",
          "tensors": [{"name": "t", "space": "sbuf", "shape": [128, 4], "dtype": "float32", "address": [0, 0]}],
          "steps": [{"op": "memset", "dst": "t", "value": 3.0}, {"op": "tensor_clamp", "dst": "t", "data": "t"}]}"#;
        let arch = Arc::new(ArchSpec::load("trn3").expect("a spec"));
        let mut core = NeuronCore::new(Arc::clone(&arch), CoreOptions::default()).expect("a core");
        let limits = Limits::default();
        let program = Program::from_json(text.as_bytes(), &limits).expect("a program");
        let loaded = program.lay(&arch, &core.state.memory, &mut (), &limits).expect("a program that fits");
        loaded.run(&mut core).expect("a run");
        let view = crate::view::View::whole(Arc::clone(&loaded.tensors[0]));
        assert_eq!(core.state.read(&view).expect("values"), vec![1.0; 512]);
        assert!(core.makespan() > crate::time::Picos::ZERO);
        assert_eq!(core.timeline.records().len(), 2);
    }
}
