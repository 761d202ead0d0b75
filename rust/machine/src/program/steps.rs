//! Steps of programs, read one after the other.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::call::{self, FunctionRegistry, Refusal};
use super::joining::{self, LogicalPlace};
use super::laid_step::Bound;
use super::marks::{Mark, Nesting};
use super::meeting::{self, MEETING_VERSION};
use super::table;
use super::words::{Field, Scope};
use crate::arch::ArchSpec;
use crate::joint::Joint;
use crate::stochastic::MOST_PLACES;
use crate::view::Register;

/// Reads the steps of one program.
pub(super) struct StepReader<'a> {
    pub(super) version: u32,
    pub(super) scope: &'a Scope<'a>,
    pub(super) arch: &'a ArchSpec,
    /// What the program may call; None: it is only looked at.
    pub(super) functions: Option<&'a dyn FunctionRegistry>,
    pub(super) logical_core: Option<LogicalPlace>,
    nesting: Nesting,
    issued: u32,
}

type Read<T> = std::result::Result<T, Refusal>;

impl<'a> StepReader<'a> {
    pub(super) fn new(version: u32, scope: &'a Scope<'a>, arch: &'a ArchSpec) -> Self {
        Self { version, scope, arch, functions: None, logical_core: None, nesting: Nesting::default(), issued: 0 }
    }

    /// The step, looked at as the machine would look at it.
    pub(super) fn read(&mut self, number: usize, op: &str, step: &Map<String, Value>) -> Read<Bound> {
        if self.version < MEETING_VERSION && is_of_version_2(op) {
            let version = self.version;
            return Err(format!("needs version {MEETING_VERSION}; the program has {version}").into());
        }
        let mut bound = self.bind(op, step)?;
        match &mut bound {
            Bound::Issue { instruction, .. } => {
                instruction.check(self.arch).map_err(|error| error.to_string())?;
                self.issued += 1;
            }
            Bound::Join { part, .. } => {
                self.check_joint(part)?;
                self.issued += 1;
            }
            Bound::Meet { .. } => self.issued += 1,
            Bound::Mark { mark, is_ordered } => {
                self.nesting.take(number, *mark)?;
                *is_ordered = self.nesting.is_ordered();
            }
            Bound::Fresh(_) | Bound::SetRegister(..) | Bound::StochasticRounding(..) => {}
        }
        Ok(bound)
    }

    /// The step that began a loop or a stretch that no step ends, and what that is.
    pub(super) fn unended(&self) -> Option<(usize, &'static str)> {
        self.nesting.unended()
    }

    fn check_joint(&self, part: &Joint) -> Read<()> {
        let cores = self.logical_core.map_or(1, |place| place.cores);
        if cores < 2 {
            let text = "needs a logical core of several cores: logical_core of the program says which it is for";
            return Err(text.to_owned().into());
        }
        Ok(part.instruction().check(self.arch).map_err(|error| error.to_string())?)
    }

    fn bind(&self, op: &str, step: &Map<String, Value>) -> Read<Bound> {
        let scope = self.scope;
        let only = |known: &[&str]| match step.keys().find(|key| *key != "op" && !known.contains(&key.as_str())) {
            Some(key) => Err(format!("has argument {key:?}; it takes {}", known.join(", "))),
            None => Ok(()),
        };
        let text = |key: &str| step.get(key).and_then(Value::as_str).ok_or_else(|| format!("{key} is no text"));
        match op {
            "fresh" => {
                only(&["tensor"])?;
                return Ok(Bound::Fresh(Arc::clone(scope.tensor(text("tensor")?)?)));
            }
            "set_register" => {
                only(&["register", "value"])?;
                let register = Arc::<Register>::decode(step.get("register"), scope)?;
                let value = i64::decode(step.get("value"), scope).map_err(|text| format!("value {text}"))?;
                return Ok(Bound::SetRegister(register, value));
            }
            "stochastic_rounding" => {
                only(&["seed", "place"])?;
                let whole = |key: &str| {
                    let number = step.get(key).filter(|number| !number.is_null());
                    let number = number.map(|number| {
                        number.as_u64().ok_or_else(|| format!("{key} is {number}; a whole number is needed"))
                    });
                    number.transpose()
                };
                let place = whole("place")?.unwrap_or(0);
                let place = usize::try_from(place).ok().filter(|&place| place < MOST_PLACES);
                let place = place.ok_or_else(|| format!("place is not below {MOST_PLACES}"))?;
                return Ok(Bound::StochasticRounding(whole("seed")?, place));
            }
            _ => {}
        }
        if let Some(mark) = Mark::decode(op, step)? {
            return Ok(Bound::Mark { mark, is_ordered: false });
        }
        let (call, part) = (meeting::decode(op, step, scope)?, joining::decode(op, step, scope)?);
        let label = match step.get("label").filter(|label| !label.is_null()) {
            None => None,
            Some(_) => Some(text("label")?.to_owned()),
        };
        let after = self.after(step)?;
        if let Some(call) = call {
            return Ok(Bound::Meet { call: Box::new(call), label, after });
        }
        if let Some(part) = part {
            return Ok(Bound::Join { part: Box::new(part), label, after });
        }
        let instruction = match op {
            call::NAME => call::decode(step, scope, self.arch, self.functions)?,
            _ => table::decode(op, step, scope, self.arch)?,
        };
        Ok(Bound::Issue { instruction, label, after })
    }

    /// Numbers of earlier instructions.
    fn after(&self, step: &Map<String, Value>) -> std::result::Result<Vec<u32>, String> {
        let after = match step.get("after").filter(|after| !after.is_null()) {
            None => return Ok(Vec::new()),
            after => Vec::<usize>::decode(after, self.scope).map_err(|text| format!("after {text}"))?,
        };
        let issued = self.issued;
        let earlier = |number: usize| u32::try_from(number).ok().filter(|number| *number < issued);
        let after: Option<Vec<u32>> = after.into_iter().map(earlier).collect();
        after.ok_or_else(|| format!("after names an instruction that comes no earlier than {issued}"))
    }
}

/// Whether programs of version 1 have no such steps.
pub(super) fn is_of_version_2(op: &str) -> bool {
    Mark::is_one(op) || op == call::NAME || joining::is_joint(op) || meeting::is_meeting(op)
}

/// Whether a step is an instruction, and has a number among them.
pub(super) fn is_instruction(op: &str) -> bool {
    !Mark::is_one(op) && !matches!(op, "fresh" | "set_register" | "stochastic_rounding")
}
