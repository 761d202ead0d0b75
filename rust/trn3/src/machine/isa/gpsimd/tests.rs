//! Checks and costs; values are tested through the Python interface.

use std::sync::Arc;

use crate::machine::arch::ArchSpec;
use crate::machine::core::{At, CoreOptions, NeuronCore, new_register};
use crate::machine::dtype::DType;
use crate::machine::isa::Instruction;
use crate::machine::isa::alu::AluOp;
use crate::machine::isa::gpsimd::affine::{Affine, AffineSelect, Iota};
use crate::machine::isa::register::RegisterValue;
use crate::machine::memory::Request;
use crate::machine::storage::Buffer;
use crate::machine::time::Clock;
use crate::machine::timing::work::Work;
use crate::machine::view::View;

fn core(arch: &str, options: CoreOptions) -> NeuronCore {
    NeuronCore::new(Arc::new(ArchSpec::load(arch).expect("built in")), options).expect("a core")
}

fn tile(core: &mut NeuronCore, shape: &[usize], dtype: DType) -> View {
    let request = Request { name: "t", shape, dtype, buffer: Buffer::Sbuf, address: None, site: Default::default() };
    View::whole(core.allocate(&request).expect("fits"))
}

fn refusal(core: &mut NeuronCore, instruction: &dyn Instruction) -> String {
    core.issue(instruction, At::default()).expect_err("refused").to_string()
}

fn cycles(core: &NeuronCore, instruction: &dyn Instruction) -> u64 {
    let arch = core.arch();
    let Work::Compute { interval, .. } = instruction.work(arch) else { panic!("no engine's work") };
    let clock: Clock = arch.gpsimd_clock();
    (0..).find(|&count| clock.cycles(count) >= interval).expect("some")
}

fn affine(pattern: &[(i64, i64)], offset: i64) -> Affine {
    Affine { pattern: pattern.into(), offset: RegisterValue::Number(offset), channel_multiplier: 1 }
}

#[test]
fn test_iota_costs_its_start_and_a_cycle_an_element() {
    let mut core = core("trn2", CoreOptions::default());
    let dst = tile(&mut core, &[128, 40], DType::Int32);
    assert_eq!(cycles(&core, &Iota { dst, affine: affine(&[(1, 40)], 0) }), 150 + 40);
}

#[test]
fn test_iota_refuses_patterns_that_do_not_fill_its_tile() {
    let mut core = core("trn3", CoreOptions::default());
    let dst = tile(&mut core, &[128, 40], DType::Int32);
    for (pattern, words) in [
        (&[][..], "pattern has 0 axes; 1 to 4 pairs"),
        (&[(1, 1); 5], "pattern has 5 axes"),
        (&[(1, 41)], "pattern has nums [41]; nums whose product is 40"),
        (&[(1, 40), (1, 0)], "pattern holds [1, 0]"),
        (&[(1 << 31, 40)], "pattern holds [2147483648, 40]"),
        (&[(1, i64::MAX), (1, 2)], "whose product is 40"),
    ] {
        let text = refusal(&mut core, &Iota { dst: dst.clone(), affine: affine(pattern, 0) });
        assert!(text.starts_with("iota ") && text.contains(words), "{text}");
    }
    let text = refusal(&mut core, &Iota { dst, affine: affine(&[(1, 40)], 1 << 31) });
    assert!(text.contains("iota offset is 2147483648; a signed number of 32 bits"), "{text}");
}

#[test]
fn test_iota_is_known_in_timing_only_runs() {
    let mut core = core("trn3", CoreOptions { values: false, ..CoreOptions::default() });
    let (whole, float) = (tile(&mut core, &[2, 3], DType::Int32), tile(&mut core, &[2, 3], DType::Float32));
    core.issue(&Iota { dst: whole.clone(), affine: affine(&[(10, 3)], 5) }, At::default()).expect("runs");
    core.issue(&Iota { dst: float.clone(), affine: affine(&[(10, 3)], 5) }, At::default()).expect("runs");
    assert_eq!(core.state.read_bits(&whole).expect("known"), [5, 15, 25, 6, 16, 26]);
    assert!(core.state.read_bits(&float).is_err());
}

#[test]
fn test_iota_reads_the_offset_of_a_register() {
    let mut core = core("trn3", CoreOptions::default());
    let dst = tile(&mut core, &[1, 2], DType::Int32);
    let register = new_register(false, None);
    let offset = RegisterValue::Register(register.clone());
    let iota = Iota { dst: dst.clone(), affine: Affine { offset, ..affine(&[(1, 2)], 0) } };
    let text = refusal(&mut core, &iota);
    assert!(text.contains("is read before anything was written"), "{text}");
    *register.value.lock().expect("free") = Some(-1);
    core.issue(&iota, At::default()).expect("runs");
    assert_eq!(core.state.read_bits(&dst).expect("written"), [u32::MAX, 0]);
    let mut read = Vec::new();
    iota.registers(&mut |_, id| read.push(id));
    assert_eq!(read, [register.id]);
}

#[test]
fn test_affine_select_compares_by_comparisons_alone() {
    let mut core = core("trn3", CoreOptions::default());
    let dst = tile(&mut core, &[128, 8], DType::Float32);
    let select = AffineSelect {
        dst: dst.clone(),
        affine: affine(&[(1, 8)], 0),
        on_true: dst,
        on_false_value: 0.0,
        cmp_op: AluOp::Add,
    };
    assert_eq!(cycles(&core, &select), 150 + 8);
    let text = refusal(&mut core, &select);
    assert!(text.contains("affine_select cmp_op is add; allowed: equal, not_equal"), "{text}");
}
