//! Time of a device: commands start, run and end.

use std::collections::BTreeMap;

use crate::host::{Commit, TraceSink};
use trn3_machine::core::{At, NeuronCore};
use trn3_machine::dtype::DType;
use trn3_machine::engine::Engine;
use trn3_machine::isa::dma::Options;
use trn3_machine::isa::dma::copy::DmaCopy;
use trn3_machine::memory::{Memory, Request};
use trn3_machine::storage::Buffer;
use trn3_machine::time::Picos;
use trn3_machine::view::View;

use super::memory::buffer;
use super::programs::{Program, of_number};
use super::{Active, Device, State};
use crate::command::{Address, Command, Completion, MemorySpace};
use crate::error::{Error, ErrorKind, Result};
use crate::stats::Stats;

/// Most bytes that one copy moves **(choice)**.
const MOST_COPIED: u64 = 1 << 28;

impl Device {
    /// Lets everything happen until then.
    pub(crate) fn pump(&mut self, until: Picos) {
        loop {
            for index in 0..self.cores.len() {
                if self.cores[index].active.is_none()
                    && let Some(waiting) = self.cores[index].queue.pop_front()
                {
                    let state = self.begin(index, waiting.sequence, waiting.command);
                    let (tag, sequence, start) = (waiting.tag, waiting.sequence, self.now.0);
                    self.cores[index].active = Some(Active { tag, sequence, start, state });
                }
            }
            self.meet();
            for index in 0..self.cores.len() {
                self.listen(index);
            }
            let ends = self.cores.iter().enumerate().filter_map(|(index, core)| {
                let active = core.active.as_ref()?;
                Some((self.next_by(index, until)?, active.sequence, index))
            });
            let Some((at, _, index)) = ends.min().filter(|(at, ..)| *at <= until.0) else { break };
            self.now = self.now.max(Picos(at));
            self.end(index);
        }
        self.now = self.now.max(until);
    }

    /// Refuses commands that can be seen to be wrong.
    pub(crate) fn check_command(&self, command: &Command) -> Result<()> {
        self.check_command_among(command, &self.programs)
    }

    /// As [`Device::check_command`], of a device with these programs.
    pub(crate) fn check_command_among(&self, command: &Command, programs: &BTreeMap<u64, Program>) -> Result<()> {
        match command {
            Command::Nop { .. } => Ok(()),
            Command::Run { program, .. } => of_number(programs, *program).map(|_| ()),
            Command::Step { program, step, .. } => {
                let steps = of_number(programs, *program)?.program.steps.len();
                if *step >= steps as u64 {
                    return Err(Error::value(format!("step is {step}; program {program} has {steps} (from 0)")));
                }
                Ok(())
            }
            Command::Copy { rows, row_bytes, .. } => {
                let bytes = rows.checked_mul(*row_bytes).filter(|bytes| (1..=MOST_COPIED).contains(bytes));
                let refuse =
                    || Error::value(format!("a copy of {rows} rows of {row_bytes}; allowed: 1 to {MOST_COPIED} bytes"));
                bytes.map(|_| ()).ok_or_else(refuse)
            }
            Command::Collective { core, part } => self.check_collective(*core, part),
        }
    }

    fn begin(&mut self, index: usize, sequence: u64, command: Command) -> State {
        let now = self.now.0;
        let (program, ran) = match command {
            Command::Nop { .. } => return State::Ends { at: now, status: Ok(()) },
            Command::Collective { part, .. } => return self.begin_exchange(index, sequence, part),
            Command::Run { program, .. } => return self.begin_run(index, program),
            Command::Step { program, step, .. } => {
                let ran = self.with_laid(index, program, |loaded, machine| {
                    machine.restart();
                    machine.timeline.begin_after(Picos(now));
                    loaded.take(machine, step as usize)
                });
                (Some(program), ran)
            }
            Command::Copy { dst, src, rows, row_bytes, .. } => {
                (None, self.copy(index, dst, src, rows, row_bytes).map(Ok))
            }
        };
        let status = match ran {
            // Nothing of it ran: what an earlier command left on the timeline is not its own.
            Err(error) => return State::Ends { at: now, status: Err(error) },
            Ok(ran) => ran.map_err(Error::from),
        };
        self.ended(index, program, now, status)
    }

    /// What a core was given has run, from a time on.
    pub(super) fn ended(&mut self, index: usize, program: Option<u64>, start: u64, status: Result<()>) -> State {
        let machine = &mut self.cores[index].machine;
        let span = machine.makespan().0;
        count_work(&mut self.stats, machine);
        let name = program.and_then(|program| self.programs.get(&program));
        let name = name.map_or("copy", |held| held.program.name.as_str()).to_owned();
        self.cores[index].ran = Some(name.clone());
        if self.runs.is_some() {
            self.share(index, true);
            return State::Runs { name, status };
        }
        let machine = &mut self.cores[index].machine;
        count_time(&mut self.stats, machine);
        if let Some(trace) = &mut self.trace {
            show(trace.as_mut(), index, &name, start, machine);
        }
        State::Ends { at: start.saturating_add(span), status }
    }

    /// The command under way on a core has come to its end, or to the next of its steps.
    fn end(&mut self, index: usize) {
        let Some(active) = self.cores[index].active.take() else { return };
        let status = match active.state {
            State::Ends { status, .. } => status,
            State::Runs { name, status } => {
                self.settle_run(index, &name, active.start);
                status
            }
            State::Exchanges(exchange) => match self.go_on(index, exchange) {
                Ok(Some(exchange)) => {
                    self.cores[index].active = Some(Active { state: State::Exchanges(exchange), ..active });
                    return;
                }
                Ok(None) => Ok(()),
                Err(error) => Err(error),
            },
            State::Meets(_) => Err(Error::new(ErrorKind::Internal, "a run ended while it waited for others")),
        };
        self.complete(index, active.tag, active.start, status);
    }

    fn complete(&mut self, index: usize, tag: u64, start: u64, status: Result<()>) {
        let (start, end) = (Picos(start), self.now);
        self.stats.commands_completed += 1;
        self.stats.commands_failed += u64::from(status.is_err());
        self.stats.command_ps = self.stats.command_ps.saturating_add(end.since(start).0);
        if let Some(trace) = &mut self.trace {
            let track = format!("core {index}");
            trace.instant(&track, if status.is_ok() { "done" } else { "failed" }, end);
            trace.counter("hbm_bytes_held", end, self.hbm.held() as f64);
        }
        let core = u32::try_from(index).unwrap_or(u32::MAX);
        self.completions.push_back(Completion { tag, core, start, end, status });
    }

    fn copy(&mut self, index: usize, dst: Address, src: Address, rows: u64, row_bytes: u64) -> Result<()> {
        if let (MemorySpace::Hbm, MemorySpace::Hbm) = (dst.space, src.space) {
            // Ranges that overlap lie on one stretch.
            let (first, last) = (dst.address.min(src.address), dst.address.max(src.address));
            if last - first < rows * row_bytes {
                self.hbm.cover(first, last - first + rows * row_bytes)?;
            }
        }
        let (dst, src) = loop {
            let dst = self.bytes(index, dst, rows, row_bytes)?;
            let generation = self.hbm.generation();
            let src = self.bytes(index, src, rows, row_bytes)?;
            // Finding a stretch for one may have moved the other; it is found where it lies now the next time.
            if self.hbm.generation() == generation {
                break (dst, src);
            }
        };
        let machine = &mut self.cores[index].machine;
        machine.restart();
        machine.timeline.begin_after(self.now);
        machine.issue(&DmaCopy { dst, src, options: Options::default(), engine: None }, At::default())?;
        Ok(())
    }

    /// Rows of bytes as an operand.
    fn bytes(&mut self, index: usize, at: Address, rows: u64, row_bytes: u64) -> Result<View> {
        let shape = [rows as usize, row_bytes as usize];
        if at.space == MemorySpace::Hbm {
            let (contents, offset, whole) = self.hbm.cover(at.address, rows * row_bytes)?;
            let whole = [whole as usize];
            let request = Request::unsited("hbm", &whole, DType::UInt8, Buffer::PrivateHbm);
            let mut view = View::whole(Memory::lay_in_hbm(&request, contents)?);
            view.shape = shape.into_iter().collect();
            view.strides = [row_bytes as i64, 1].into_iter().collect();
            view.offset = offset as i64;
            return Ok(view);
        }
        let partition_bytes = self.size_of(at.space) / self.arch.partitions;
        let (partition, byte) = (at.address / partition_bytes, at.address % partition_bytes);
        let request = Request::unsited("rows", &shape, DType::UInt8, buffer(at.space));
        let memory = &self.cores[index].machine.state.memory;
        Ok(View::whole(memory.lay_on_chip(&request, (partition as usize, byte as usize))?))
    }
}

/// Adds what a run did.
fn count_work(stats: &mut Stats, machine: &mut NeuronCore) {
    stats.instructions += machine.issued();
    machine.timeline.schedule();
    stats.findings += machine.state.memory.findings().len() as u64;
    for record in machine.timeline.records() {
        stats.macs += record.macs;
        stats.dma_bytes += record.dma_bytes;
        stats.hbm_read_bytes += record.hbm_read;
        stats.hbm_write_bytes += record.hbm_write;
    }
}

/// Adds how long a run held what.
pub(super) fn count_time(stats: &mut Stats, machine: &mut NeuronCore) {
    machine.timeline.schedule();
    for record in machine.timeline.records() {
        let busy = match record.engine {
            Engine::Tensor => &mut stats.tensor_busy_ps,
            Engine::Vector => &mut stats.vector_busy_ps,
            Engine::Scalar => &mut stats.scalar_busy_ps,
            Engine::GpSimd => &mut stats.gpsimd_busy_ps,
            Engine::Sync => &mut stats.sync_busy_ps,
            Engine::Dma => &mut stats.dma_busy_ps,
        };
        *busy += record.slot_end.since(record.start).0;
    }
}

/// Shows a run that started at a time.
pub(super) fn show(trace: &mut dyn TraceSink, index: usize, name: &str, start: u64, machine: &mut NeuronCore) {
    let at = |time: Picos| Picos(start.saturating_add(time.0));
    let core = u32::try_from(index).unwrap_or(u32::MAX);
    trace.span(&format!("core {index}"), name, Picos(start), at(machine.timeline.makespan()));
    let tracks = Engine::ALL.map(|engine| format!("core {index} {engine}"));
    for finding in machine.state.memory.findings() {
        trace.instant(&format!("core {index}"), &finding.to_string(), Picos(start));
    }
    for record in machine.timeline.records() {
        let name = machine.opcodes.opcodes().get(usize::from(record.opcode)).copied().unwrap_or_default();
        let label = machine.opcodes.labels().get(record.label as usize).map(String::as_str).unwrap_or_default();
        let (start, end) = (at(record.start), at(record.end));
        trace.span(&tracks[record.engine as usize], name, start, end);
        trace.commit(&Commit { core, number: record.id, engine: record.engine, name, label, start, end });
    }
}
