//! How fast a chip or a core multiplies: one derivation for specs, plans, profiles and estimates.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::error::{Error, Result};
use crate::expression::Expression;
use crate::formula::formulas;
use crate::spec::Spec;

type Table = BTreeMap<String, Vec<Expression>>;

static TABLES: LazyLock<Result<BTreeMap<String, Table>>> = LazyLock::new(|| {
    let read: BTreeMap<String, BTreeMap<String, Vec<String>>> = toml::from_str(include_str!("../specs/peaks.toml"))
        .map_err(|error| Error::Spec(format!("peaks.toml: {error}")))?;
    let parse = |texts: Vec<String>| texts.iter().map(|text| Expression::parse(text)).collect::<Result<Vec<_>>>();
    let table = |table: BTreeMap<String, Vec<String>>| {
        table.into_iter().map(|(format, texts)| Ok((format, parse(texts)?))).collect::<Result<Table>>()
    };
    read.into_iter().map(|(name, rows)| Ok((name, table(rows)?))).collect()
});

fn expressions(table: &str, format: &str) -> Result<&'static [Expression]> {
    let tables = TABLES.as_ref().map_err(Clone::clone)?;
    let table = tables.get(table).ok_or_else(|| Error::Spec(format!("peaks.toml lacks {table}")))?;
    let found = table.get(format).map(Vec::as_slice);
    found.ok_or_else(|| Error::unknown("format", format, table.keys().map(String::as_str)))
}

fn first(expressions: &[Expression], known: impl Fn(&str) -> Option<f64>) -> Result<Option<f64>> {
    let all = |expression: &&Expression| expression.names().iter().all(|name| known(name).is_some());
    expressions.iter().find(all).map(|expression| expression.value(&known)).transpose()
}

/// Operations a second of a chip or a core in a format, a multiply and an add for every product; `None` where it has no
/// such rate. Formats are `fp32`, `tf32`, `bf16`, `fp16`, `fp8`, `mxfp8`, `mxfp4`.
///
/// # Errors
/// [`Error::Unknown`] for another format.
///
/// ```
/// use trn3_facts::{Spec, peak};
///
/// let chip = Spec::built_in("trainium3")?;
/// assert_eq!(peak(&chip, "mxfp8")?, Some(512.0 * 128.0 * 2.0 * 2.4e9 * 8.0));
/// let chip = Spec::built_in("trainium2")?;
/// assert_eq!(peak(&chip, "mxfp8")?, None);
/// # Ok::<(), trn3_facts::Error>(())
/// ```
pub fn peak(spec: &Spec, format: &str) -> Result<Option<f64>> {
    let has_array = spec.parts.contains_key("core") || spec.quantities.contains_key("pe_rows");
    first(expressions(if has_array { "array" } else { "page" }, format)?, |name| spec.known(name))
}

/// [`peak`] of one core's array, given what it is made of: `pe_rows`, `pe_cols`, `clock_tensor` in hertz, `fp32_passes`,
/// `fp8_k_per_pe`, `mx_k_per_pe`; a mode that is not known there gives `None`.
///
/// # Errors
/// [`Error::Unknown`] for another format.
pub fn array_peak(format: &str, known: impl Fn(&str) -> Option<f64>) -> Result<Option<f64>> {
    let rules = formulas()?.get("core").ok_or_else(|| Error::Spec("formulas.toml lacks core".to_owned()))?;
    let of_parts = |figure: &str| {
        let texts = &rules.get(figure)?.formulas;
        let read: Vec<Expression> = texts.iter().map(|(_, expression)| expression.clone()).collect();
        first(&read, &known).ok().flatten()
    };
    first(expressions("array", format)?, of_parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_a_chip_has_the_rate_of_its_cores_arrays() {
        for (core, chip) in
            [("neuroncore_v2", "trainium1"), ("neuroncore_v3", "trainium2"), ("neuroncore_v4", "trainium3")]
        {
            let (core, chip) = (Spec::built_in(core).expect("loads"), Spec::built_in(chip).expect("loads"));
            for format in ["fp32", "tf32", "bf16", "fp16", "fp8", "mxfp8", "mxfp4"] {
                let array = array_peak(format, |name| core.known(name)).expect("known");
                let near = |one: f64, other: f64| (one / other - 1.0).abs() < 1e-12;
                let of_core = peak(&core, format).expect("known");
                assert!(array.zip(of_core).is_none_or(|(array, core)| near(array, core)), "{format}");
                let cores = chip.si("cores").expect("there");
                let of_chip = peak(&chip, format).expect("known");
                assert_eq!(of_chip.is_some(), array.is_some(), "{}: {format}", chip.facts.name);
                assert!(array.zip(of_chip).is_none_or(|(array, chip)| near(array * cores, chip)), "{format}");
            }
        }
    }

    #[test]
    fn test_pages_without_a_rate_of_16_bits_give_half_of_8() {
        let pod = Spec::built_in("tpu_v7").expect("loads");
        let [eight, sixteen] = ["fp8", "bf16"].map(|format| peak(&pod, format).expect("known").expect("there"));
        assert_eq!(sixteen, eight / 2.0);
        assert_eq!(peak(&pod, "mxfp4").expect("known"), None);
        assert!(peak(&pod, "int3").expect_err("none").to_string().contains("allowed"));
    }
}
