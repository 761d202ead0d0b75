//! What Kubernetes adds to the language: quantities, semantic versions, functions of texts, `cel.bind`.

use std::any::Any;
use std::cmp::Ordering;
use std::fmt::Display;
use std::sync::{Arc, LazyLock};

use cel::common::ast::{ComprehensionExpr, Expr, IdedExpr, ListExpr, LiteralValue};
use cel::common::types::{CelBool, CelDouble, CelInt, CelString, Kind, Type};
use cel::common::value::{StaticVal, Val};
use cel::parser::{Macro, MacroExprHelper};
use cel::{DeclarationError, Env, ExecutionError, ParseError, add_member_overload, add_overload, extensions};
use num_rational::BigRational;

use crate::error::Error;
use crate::selector::cost;
use crate::values::{ResourceQuantity, SemanticVersion};

/// The functions that are there beside the language's own, for hints.
pub(super) const NAMES: [&str; 15] = [
    "quantity",
    "isQuantity",
    "semver",
    "isSemver",
    "compareTo",
    "isGreaterThan",
    "isLessThan",
    "isInteger",
    "asInteger",
    "asApproximateFloat",
    "major",
    "minor",
    "patch",
    "lowerAscii",
    "upperAscii",
];

/// The language of selectors.
pub(super) static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| {
    let mut environment = Env::stdlib().with_optional_support(false);
    extend(&mut environment).expect("every name is declared once");
    Arc::new(environment)
});

type Answer<T> = Result<T, ExecutionError>;

fn extend(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_extension(extensions::strings)?;
    env.add_macro(Macro::receiver("bind", 3, bind))?;
    cost::declare(env)?;
    add_overload!(env, fn quantity: (CelString) -> Result<CelQuantity>)?;
    add_overload!(env, fn is_quantity: (CelString) -> CelBool)?;
    add_overload!(env, fn semver: (CelString) -> Result<CelSemver>)?;
    add_overload!(env, fn is_semver: (CelString) -> CelBool)?;
    add_member_overload!(env, fn compare_quantities: (CelQuantity, CelQuantity) -> CelInt, name = "compareTo")?;
    add_member_overload!(env, fn compare_versions: (CelSemver, CelSemver) -> CelInt, name = "compareTo")?;
    add_member_overload!(env, fn greater_quantity: (CelQuantity, CelQuantity) -> CelBool, name = "isGreaterThan")?;
    add_member_overload!(env, fn greater_version: (CelSemver, CelSemver) -> CelBool, name = "isGreaterThan")?;
    add_member_overload!(env, fn less_quantity: (CelQuantity, CelQuantity) -> CelBool, name = "isLessThan")?;
    add_member_overload!(env, fn less_version: (CelSemver, CelSemver) -> CelBool, name = "isLessThan")?;
    add_member_overload!(env, fn is_integer: (CelQuantity) -> CelBool)?;
    add_member_overload!(env, fn as_integer: (CelQuantity) -> Result<CelInt>)?;
    add_member_overload!(env, fn as_approximate_float: (CelQuantity) -> CelDouble)?;
    add_member_overload!(env, fn major: (CelSemver) -> CelInt)?;
    add_member_overload!(env, fn minor: (CelSemver) -> CelInt)?;
    add_member_overload!(env, fn patch: (CelSemver) -> CelInt)?;
    Ok(())
}

macro_rules! value {
    ($(#[$doc:meta])* $name:ident, $inner:ty, $cel:literal, $kind:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub(super) struct $name(pub(super) $inner);

        static $kind: Type = Type::simple_type(Kind::Opaque, $cel);

        impl Val for $name {
            fn get_type(&self) -> &Type {
                &$kind
            }

            fn cel_type() -> &'static Type {
                &$kind
            }

            fn equals(&self, other: &dyn Val) -> bool {
                other.downcast_ref::<Self>().is_some_and(|other| self == other)
            }

            fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v>
            where
                Self: 'v,
            {
                Box::new(self.clone())
            }

            fn as_any(&self) -> Option<&dyn Any> {
                Some(self)
            }
        }

        impl StaticVal for $name {}
    };
}

value!(
    /// A quantity; the language has no `<` for it.
    CelQuantity,
    ResourceQuantity,
    "quantity",
    QUANTITY_TYPE
);
value!(
    /// A version; the language has no `<` for it.
    CelSemver,
    SemanticVersion,
    "semver",
    SEMVER_TYPE
);

fn refused(function: &str) -> impl Fn(Error) -> ExecutionError {
    move |error| failed(function, error)
}

fn failed(function: &str, why: impl Display) -> ExecutionError {
    ExecutionError::function_error(function, why)
}

fn quantity(text: &CelString<'_>) -> Answer<CelQuantity> {
    ResourceQuantity::parse(text.inner()).map(CelQuantity).map_err(refused("quantity"))
}

fn is_quantity(text: &CelString<'_>) -> CelBool {
    CelBool::from(ResourceQuantity::parse(text.inner()).is_ok())
}

fn semver(text: &CelString<'_>) -> Answer<CelSemver> {
    SemanticVersion::parse(text.inner()).map(CelSemver).map_err(refused("semver"))
}

fn is_semver(text: &CelString<'_>) -> CelBool {
    CelBool::from(SemanticVersion::parse(text.inner()).is_ok())
}

fn sign(order: Ordering) -> CelInt {
    CelInt::from(order as i64)
}

fn compare_quantities(left: &CelQuantity, right: &CelQuantity) -> CelInt {
    sign(left.0.cmp(&right.0))
}

fn compare_versions(left: &CelSemver, right: &CelSemver) -> CelInt {
    sign(left.0.cmp(&right.0))
}

fn greater_quantity(left: &CelQuantity, right: &CelQuantity) -> CelBool {
    CelBool::from(left.0 > right.0)
}

fn greater_version(left: &CelSemver, right: &CelSemver) -> CelBool {
    CelBool::from(left.0 > right.0)
}

fn less_quantity(left: &CelQuantity, right: &CelQuantity) -> CelBool {
    CelBool::from(left.0 < right.0)
}

fn less_version(left: &CelSemver, right: &CelSemver) -> CelBool {
    CelBool::from(left.0 < right.0)
}

fn is_integer(value: &CelQuantity) -> CelBool {
    CelBool::from(value.0.number().is_integer())
}

fn as_integer(value: &CelQuantity) -> Answer<CelInt> {
    let whole = i64::try_from(value.0.number().trunc().to_integer());
    whole.map(CelInt::from).map_err(|_| failed("asInteger", format!("{} is wider than 64 bits", value.0)))
}

fn as_approximate_float(value: &CelQuantity) -> CelDouble {
    CelDouble::from(nearest(value.0.number()))
}

/// The nearest number of 64 bits; what is too large for one is infinite.
fn nearest(value: &BigRational) -> f64 {
    // Digits of both parts are cut alike, so that neither is infinite where their ratio is not.
    let cut = value.numer().bits().max(value.denom().bits()).saturating_sub(1000);
    let part = |whole: &str| whole.parse::<f64>().unwrap_or(f64::NAN);
    let (numerator, denominator) = (value.numer() >> cut, value.denom() >> cut);
    part(&numerator.to_string()) / part(&denominator.to_string())
}

fn major(version: &CelSemver) -> CelInt {
    CelInt::from(version.0.numbers()[0] as i64)
}

fn minor(version: &CelSemver) -> CelInt {
    CelInt::from(version.0.numbers()[1] as i64)
}

fn patch(version: &CelSemver) -> CelInt {
    CelInt::from(version.0.numbers()[2] as i64)
}

/// `cel.bind(name, value, body)`: the body, in which the name stands for the value.
fn bind(
    helper: &mut MacroExprHelper<'_>,
    target: &mut Option<IdedExpr>,
    arguments: &mut Vec<IdedExpr>,
) -> Result<Option<IdedExpr>, ParseError> {
    let of_cel = target.as_ref().is_some_and(|owner| matches!(&owner.expr, Expr::Ident(name) if name == "cel"));
    let [name, _, _] = arguments.as_slice() else { return Ok(None) };
    let Expr::Ident(name) = &name.expr else { return Ok(None) };
    if !of_cel {
        return Ok(None);
    }
    let name = name.clone();
    let (Some(body), Some(value)) = (arguments.pop(), arguments.pop()) else { return Ok(None) };
    // A loop over nothing, whose result is computed where its accumulator is known.
    let bound = ComprehensionExpr {
        iter_range: helper.next_expr(Expr::List(ListExpr::new(Vec::new()))),
        iter_var: "#unused".to_owned(),
        iter_var2: None,
        loop_cond: helper.next_expr(Expr::Literal(LiteralValue::Boolean(false.into()))),
        loop_step: helper.next_expr(Expr::Ident(name.clone())),
        accu_var: name,
        accu_init: value,
        result: body,
    };
    Ok(Some(helper.next_expr(Expr::Comprehension(Box::new(bound)))))
}
