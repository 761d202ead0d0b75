//! Parts of a host's own in the place of ours.

use std::sync::{Arc, Mutex};

use serde_json::json;
use trn3_embed::MemorySpace;
use trn3_embed::{BitSource, Commit, CostModel, TraceSink};
use trn3_machine::arch::ArchSpec;
use trn3_machine::host::ArchCost;
use trn3_machine::isa::Instruction;
use trn3_machine::time::Picos;
use trn3_machine::timing::work::Work;

use crate::support::{device, device_of, loaded, program, run};

struct Slow;

impl CostModel for Slow {
    fn work(&self, instruction: &dyn Instruction, arch: &ArchSpec) -> Work {
        match ArchCost.work(instruction, arch) {
            Work::Compute { interval, latency, table } => {
                Work::Compute { interval, latency: Picos(latency.0 + 1_000_000), table }
            }
            other => other,
        }
    }
}

#[test]
fn test_a_cost_model_of_the_host_is_used() {
    let steps = [json!({"op": "memset", "dst": "t0", "value": 2.0})];
    let time = |slow: bool| {
        let mut device = device();
        if slow {
            device.set_cost_model(0, Box::new(Slow)).expect("a core");
        }
        let number = loaded(&mut device, &program(&steps));
        run(&mut device, number).end.0
    };
    assert_eq!(time(true), time(false) + 1_000_000);
}

struct Count(u32);

impl BitSource for Count {
    fn fill(&mut self, draws: &mut [u32]) -> trn3_machine::Result<()> {
        for draw in draws {
            *draw = self.0;
            self.0 += 1;
        }
        Ok(())
    }
}

#[test]
fn test_a_bit_source_of_the_host_is_used() {
    let mut device = device();
    device.set_bit_source(0, false, Some(Box::new(Count(100)))).expect("a core");
    let number = loaded(&mut device, &program(&[json!({"op": "rng", "dst": "i", "engine": "vector"})]));
    assert_eq!(run(&mut device, number).status, Ok(()));
    let place = device.tensor(number, "i").expect("a tensor");
    let mut words = [0; 8];
    device.read(place.space, 0, place.address, &mut words).expect("bytes");
    assert_eq!(words, [100, 0, 0, 0, 101, 0, 0, 0]);
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn add(&self, line: String) {
        self.0.lock().expect("one thread").push(line);
    }
}

impl TraceSink for Log {
    fn span(&mut self, track: &str, name: &str, start: Picos, end: Picos) {
        self.add(format!("{track} | {name} | {} to {}", start.0, end.0));
    }
    fn instant(&mut self, track: &str, name: &str, at: Picos) {
        self.add(format!("{track} ! {name} {}", at.0));
    }
    fn counter(&mut self, track: &str, _at: Picos, value: f64) {
        self.add(format!("{track} = {value}"));
    }
    fn commit(&mut self, commit: &Commit<'_>) {
        self.add(commit.to_string());
    }
}

#[test]
fn test_a_trace_shows_commands_instructions_and_commits() {
    let mut device = device();
    let log = Log::default();
    device.set_trace(Some(Box::new(log.clone())));
    let number = loaded(&mut device, &program(&[json!({"op": "memset", "dst": "t0", "value": 2.0, "label": "two"})]));
    let done = run(&mut device, number);
    let lines = log.0.lock().expect("one thread").clone();
    let end = done.end.0;
    assert_eq!(lines[0], "core 0 ! run 0");
    assert!(lines.contains(&format!("core 0 | random | 0 to {end}")), "{lines:?}");
    assert!(
        lines.iter().any(|line| line.starts_with("core 0 vector 0 memset 0 ") && line.ends_with(" two")),
        "{lines:?}"
    );
    assert!(lines.contains(&format!("core 0 ! done {end}")), "{lines:?}");
    assert!(lines.iter().any(|line| line.starts_with("hbm_bytes_held = ")), "{lines:?}");
}

#[test]
fn test_values_alone_take_no_time_and_time_alone_has_no_values() {
    let steps = [
        json!({"op": "dma_copy", "dst": "t0", "src": "x"}),
        json!({"op": "tensor_scalar", "dst": "t1", "data": "t0", "op0": "multiply", "operand0": 2.0}),
        json!({"op": "dma_copy", "dst": "y", "src": "t1"}),
    ];
    let outcome = |spec: serde_json::Value| {
        let mut device = device_of(&spec);
        let number = loaded(&mut device, &program(&steps));
        let done = run(&mut device, number);
        assert_eq!(done.status, Ok(()));
        let place = device.tensor(number, "y").expect("a tensor");
        let mut value = [0; 4];
        device.read(MemorySpace::Hbm, 0, place.address, &mut value).expect("bytes");
        (done.end, f32::from_le_bytes(value))
    };
    let both = outcome(json!({}));
    assert!(both.0 > Picos(0) && both.1 != 0.0);
    assert_eq!(outcome(json!({"timing": false})), (Picos(0), both.1));
    assert_eq!(outcome(json!({"values": false})), (both.0, 0.0));
}

#[test]
fn test_overrides_change_the_machine() {
    let steps = [json!({"op": "dma_copy", "dst": "t0", "src": "x"})];
    let time = |spec: serde_json::Value| {
        let mut device = device_of(&spec);
        let number = loaded(&mut device, &program(&steps));
        run(&mut device, number).end
    };
    assert!(time(json!({"overrides": {"dma_start_static_ns": 5000.0}})) > time(json!({})));
}
