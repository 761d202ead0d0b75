//! Lines on other engines, and transfers that other sequencers trigger.

use std::collections::BTreeMap;

use trn3_machine::Result;
use trn3_machine::engine::Engine;
use trn3_machine::site::SiteId;
use trn3_machine::timing::work::Work;
use trn3_machine::trace::{Edit, TraceStep};

use super::search::{About, Search};
use super::{AdviceKind, LEAST_GAIN};

/// Lines, with engines that each could be given: several take turns.
type Choices = BTreeMap<u32, (SiteId, Vec<Vec<Engine>>)>;

/// What may trigger a transfer whose descriptors are made in hardware.
const SEQUENCERS: [Engine; 2] = [Engine::Sync, Engine::Scalar];

impl Search<'_> {
    /// Gives lines to other engines, whoever chose theirs.
    pub(super) fn engines(&mut self) -> Result<()> {
        let choices = self.alike(|step| {
            let all = step.alternatives.iter();
            let others = all.flat_map(|all| all.engines.iter().chain(&all.renamed).map(|each| each.0));
            (step.engine, others.collect())
        });
        let choices = choices.into_iter().map(|(line, (site, own, others))| {
            let alone = others.iter().map(|&other| vec![other]);
            let in_turn = others.iter().map(|&other| vec![own, other]);
            (line, (site, alone.chain(in_turn).collect()))
        });
        let give = |line, engines| Edit::Engines { line, engines };
        self.best(AdviceKind::Engine, choices.collect(), &give)
    }

    /// Names sequencers that trigger transfers, of which each has a queue of its own.
    pub(super) fn triggers(&mut self) -> Result<()> {
        let choices = self.alike(|step| {
            let open = matches!(step.work, Work::Dma(_)) && step.marks.takes_trigger;
            (step.engine, if open { SEQUENCERS.to_vec() } else { Vec::new() })
        });
        let choices = choices.into_iter().map(|(line, (site, _, others))| {
            let alone = others.iter().map(|&other| vec![other]);
            (line, (site, alone.chain([others.clone()]).collect()))
        });
        let give = |line, sequencers| Edit::Triggers { line, sequencers };
        self.best(AdviceKind::Queue, choices.collect(), &give)
    }

    /// Lines all of whose steps run on one engine and could be given others, with these.
    fn alike(&self, of: impl Fn(&TraceStep) -> (Engine, Vec<Engine>)) -> BTreeMap<u32, (SiteId, Engine, Vec<Engine>)> {
        let mut open: BTreeMap<SiteId, Option<(Engine, Vec<Engine>)>> = BTreeMap::new();
        for step in self.retimer.traces().iter().flat_map(|trace| &trace.steps) {
            let (own, others) = of(step);
            let found = open.entry(step.site).or_insert_with(|| Some((own, others.clone())));
            if let Some((engine, known)) = found {
                known.retain(|engine| others.contains(engine));
                if known.is_empty() || *engine != own {
                    *found = None;
                }
            }
        }
        let of_line = |(site, found): (SiteId, Option<(Engine, Vec<Engine>)>)| {
            let line = *self.numbers.get(&site)?;
            let (engine, others) = found?;
            (self.lines[&line].len() == 1).then_some((line, (site, engine, others)))
        };
        open.into_iter().filter_map(of_line).collect()
    }

    /// Makes choices, the best one first, as long as that saves something; all of lines that can name engines are one change,
    /// and all others one.
    fn best(&mut self, kind: AdviceKind, open: Choices, give: &dyn Fn(SiteId, Vec<Engine>) -> Edit) -> Result<()> {
        let turns = |line: &u32| self.outline.named.as_ref().map_or(Some(true), |named| named.get(line).copied());
        let (mut named, others): (Choices, Choices) = open.into_iter().partition(|(line, _)| turns(line).is_some());
        for (line, (_, choices)) in &mut named {
            choices.retain(|engines| engines.len() == 1 || turns(line) == Some(true));
        }
        self.best_of(kind, named, give)?;
        self.best_of(kind, others, give)
    }

    fn best_of(
        &mut self,
        kind: AdviceKind,
        mut open: Choices,
        give: &dyn Fn(SiteId, Vec<Engine>) -> Edit,
    ) -> Result<()> {
        let (mut given, mut best) = (Vec::<(u32, SiteId, Vec<Engine>)>::new(), self.base_us);
        let edits = |given: &[(u32, SiteId, Vec<Engine>)]| -> Vec<Edit> {
            given.iter().map(|(_, line, engines)| give(*line, engines.clone())).collect()
        };
        loop {
            let mut next: Option<(f64, (u32, SiteId, Vec<Engine>))> = None;
            for (&line, (site, choices)) in &open {
                for engines in choices {
                    given.push((line, *site, engines.clone()));
                    let latency = self.latency(&edits(&given))?;
                    let tried = given.pop();
                    if let (Some(latency), Some(tried)) = (latency, tried)
                        && latency < best * (1.0 - LEAST_GAIN)
                        && next.as_ref().is_none_or(|(found, _)| latency < *found)
                    {
                        next = Some((latency, tried));
                    }
                }
            }
            let Some((latency, chosen)) = next else { break };
            open.remove(&chosen.0);
            best = latency;
            given.push(chosen);
        }
        if given.is_empty() {
            return Ok(());
        }
        let about = About {
            lines: given.iter().map(|each| each.0).collect(),
            engines: given.iter().map(|each| each.2.iter().map(|engine| engine.name()).collect()).collect(),
            ..About::default()
        };
        self.consider(kind, edits(&given), about)?;
        Ok(())
    }
}
