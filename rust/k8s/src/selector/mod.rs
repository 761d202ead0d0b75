//! Selectors of devices: expressions in the Common Expression Language.
//!
//! The language is that of the crate `cel`; this module adds what Kubernetes adds to it (`device`, quantities, semantic
//! versions, its functions of texts, `cel.bind`) and turns its complaints into one line with a position. Optional field
//! selection (`?`) is left out.

mod complaint;
mod cost;
mod depth;
mod functions;
mod seen;

use std::sync::Arc;

use cel::common::ast::IdedExpr;
use cel::common::types::CelBool;
use cel::common::value::CowVal;
use cel::context::VariableResolver;
use cel::{Context, Program, Value};

use crate::device::PoolDevice;
use crate::error::{Error, Result};
use crate::names::MAX_EXPRESSION;

/// An expression as a predicate of devices.
///
/// ```
/// use trn3_k8s::Selector;
///
/// let error = Selector::compile("claim", "device.driver = 'x'").unwrap_err();
/// assert!(error.to_string().starts_with("line 1, column 15: cannot be read"));
/// ```
#[derive(Clone, Debug)]
pub struct Selector {
    place: String,
    expression: String,
    program: Arc<Program>,
    /// The same with what counts its cost, where that may be much.
    watched: Option<Arc<IdedExpr>>,
    depth: usize,
}

impl Selector {
    /// Reads an expression; `place` is where it stands, for errors of [`accepts`](Self::accepts).
    ///
    /// # Errors
    /// [`Error::Selector`] if the text is no expression; it has line and column.
    pub fn compile(place: impl Into<String>, expression: &str) -> Result<Self> {
        if expression.len() > MAX_EXPRESSION {
            return Err(Error::Selector(format!(
                "an expression of {} bytes; at most {MAX_EXPRESSION} are allowed",
                expression.len()
            )));
        }
        let depth = depth::depth(expression);
        if depth > depth::MAX_DEPTH {
            let text = complaint::one_line(expression);
            let most = depth::MAX_DEPTH;
            return Err(Error::Selector(format!("cannot be read: more than {most} operators in each other: {text}")));
        }
        let read = depth::with_stack(depth, depth::READ_ANYWHERE, || functions::ENVIRONMENT.compile(expression));
        let program = match read {
            Some(Ok(program)) => program,
            Some(Err(errors)) => return Err(Error::Selector(complaint::of_reading(expression, &errors))),
            None => return Err(no_memory()),
        };
        let watched = cost::watched(program.expression()).map(Arc::new);
        let expression = expression.to_owned();
        Ok(Self { place: place.into(), expression, program: Arc::new(program), watched, depth })
    }

    /// The text that was read.
    pub fn expression(&self) -> &str {
        &self.expression
    }

    /// Whether a device matches.
    ///
    /// # Errors
    /// [`Error::Selector`] if the expression fails on the device, as Kubernetes refuses the claim then.
    pub fn accepts(&self, device: &PoolDevice) -> Result<bool> {
        // What counts lies between any two steps.
        let depth = if self.watched.is_some() { 2 * self.depth } else { self.depth };
        depth::with_stack(depth, depth::EVALUATED_ANYWHERE, || self.evaluate(device))
            .unwrap_or_else(|| Err(no_memory()))
    }

    fn evaluate(&self, device: &PoolDevice) -> Result<bool> {
        let resolver = Named(device);
        let mut context = Context::with_env(functions::ENVIRONMENT.clone());
        context.set_variable_resolver(&resolver);
        cost::begin();
        let found = Value::resolve_val(self.watched.as_deref().unwrap_or(self.program.expression()), &context);
        let complaint = match found {
            _ if cost::is_exceeded() => {
                let most = cost::LIMIT;
                format!(
                    "costs more than {most}, as much as Kubernetes allows, for {device}: loops in it, or texts that grow"
                )
            }
            Ok(value) => match value.downcast_ref::<CelBool>() {
                Some(truth) => return Ok(*truth.inner()),
                None => format!("gives {}, not a truth value, for {device}", value.get_type().name()),
            },
            Err(error) => complaint::of_evaluation(&error, device),
        };
        let expression = crate::shown::quoted(&self.expression);
        Err(Error::Selector(format!("{}: {expression}: {complaint}", self.place)))
    }
}

fn no_memory() -> Error {
    Error::Selector("there is no memory for an expression as deep as this".to_owned())
}

/// The one variable that there is.
struct Named<'a>(&'a PoolDevice);

impl VariableResolver for Named<'_> {
    fn resolve<'b>(&'b self, variable: &str) -> Option<CowVal<'b, 'b>> {
        (variable == "device").then(|| CowVal::Borrowed(seen::of(self.0)))
    }
}

#[cfg(test)]
mod tests;
