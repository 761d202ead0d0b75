//! Requests of a claim: what each asks for, and in which order of preference.

use std::sync::Arc;

use serde_json::Value;

use super::reader::Reader;
use super::{ClaimAsk, ClaimRequest, Toleration, given};
use crate::document::Object;
use crate::error::{Error, Result, guess};
use crate::names;
use crate::shown::{is_nothing, shown, text_of};
use crate::values::ResourceQuantity;

const EXACT_FIELDS: [&str; 7] =
    ["deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity"];
const SUB_FIELDS: [&str; 7] =
    ["name", "deviceClassName", "selectors", "allocationMode", "count", "tolerations", "capacity"];
const TOLERATION_FIELDS: [&str; 5] = ["key", "operator", "value", "effect", "tolerationSeconds"];
const MODES: [&str; 2] = ["ExactCount", "All"];

impl Reader<'_> {
    /// A request and its alternatives.
    pub(super) fn request(&self, entry: &Value, path: &str) -> Result<ClaimRequest> {
        if entry.get("deviceClassName").is_some() {
            let reason =
                "deviceClassName stands directly in the request, which is v1beta1; in v1 it stands under exactly:";
            return Err(self.fail(path, reason));
        }
        let body = self.fields(Some(entry), path, &["name", "exactly", "firstAvailable"])?;
        let name = self.text(body, "name", path)?;
        self.check_label(name, &format!("{path}.name"))?;
        let there = |key: &str| body.get(key).filter(|value| !value.is_null());
        let alternatives = match (there("exactly"), there("firstAvailable")) {
            (Some(exactly), None) => {
                let place = format!("{path}.exactly");
                vec![self.ask(self.fields(Some(exactly), &place, &EXACT_FIELDS)?, &place, name.to_owned())?]
            }
            (None, Some(first)) => self.alternatives(first, &format!("{path}.firstAvailable"), name)?,
            _ => return Err(self.fail(path, "must have one of exactly and firstAvailable")),
        };
        Ok(ClaimRequest { name: name.to_owned(), alternatives })
    }

    fn alternatives(&self, first: &Value, path: &str, name: &str) -> Result<Vec<Arc<ClaimAsk>>> {
        let mut alternatives = Vec::new();
        for (place, each) in self.items(Some(first), path, names::MAX_SUBREQUESTS)? {
            let fields = self.fields(Some(each), &place, &SUB_FIELDS)?;
            let sub = self.text(fields, "name", &place)?;
            self.check_label(sub, &format!("{place}.name"))?;
            alternatives.push(self.ask(fields, &place, format!("{name}/{sub}"))?);
        }
        if alternatives.is_empty() {
            return Err(self.fail(path, "must have at least one entry"));
        }
        self.check_unique(alternatives.iter().map(|each| each.name.as_str()), path)?;
        Ok(alternatives)
    }

    fn ask(&self, body: &Object, path: &str, name: String) -> Result<Arc<ClaimAsk>> {
        let count = self.count(body, path)?;
        let admin = match given(body, "adminAccess") {
            None => false,
            Some(Value::Bool(admin)) => *admin,
            Some(other) => {
                let reason = format!("must be true or false; it is {}", shown(other));
                return Err(self.fail(&format!("{path}.adminAccess"), reason));
            }
        };
        let class_name = self.text(body, "deviceClassName", path)?.to_owned();
        let selectors = self.selectors(body.get("selectors"), &format!("{path}.selectors"))?;
        let tolerations = self.tolerations(body.get("tolerations"), &format!("{path}.tolerations"))?;
        let capacity = self.capacity(body.get("capacity"), &format!("{path}.capacity"))?;
        let expressions = selectors.iter().map(|selector| selector.expression().to_owned()).collect();
        let key = Arc::new((class_name.clone(), expressions, capacity.clone()));
        let covers = |each: &Toleration| (each.exists, [&each.key, &each.value, &each.effect].map(String::clone));
        let candidates = Arc::new((key.clone(), tolerations.iter().map(covers).collect()));
        Ok(Arc::new(ClaimAsk { name, class_name, selectors, count, admin, tolerations, capacity, key, candidates }))
    }

    /// How many devices; `None` for all.
    fn count(&self, body: &Object, path: &str) -> Result<Option<usize>> {
        let place = format!("{path}.count");
        let mode = given(body, "allocationMode").map_or_else(|| MODES[0].to_owned(), text_of);
        let count = body.get("count").unwrap_or(&Value::Null);
        if mode == MODES[1] {
            if !is_nothing(count) {
                return Err(self.fail(&place, "has no meaning with allocationMode All; leave one of them out"));
            }
            return Ok(None);
        }
        if mode != MODES[0] {
            let came = given(body, "allocationMode").map(shown).unwrap_or_default();
            let reason = format!("must be {}; it is {came}{}", MODES.join(" or "), guess(&mode, MODES));
            return Err(self.fail(&format!("{path}.allocationMode"), reason));
        }
        let number = if count.is_null() { Some(1) } else { count.as_u64().filter(|number| *number > 0) };
        let Some(number) = number else {
            return Err(self.fail(&place, format!("must be a whole number from 1 on; it is {}", shown(count))));
        };
        if number > names::MAX_RESULTS as u64 {
            let most = names::MAX_RESULTS;
            let reason =
                format!("{number}: a claim holds at most {most} devices; use several claims, one for each pod");
            return Err(self.fail(&place, reason));
        }
        Ok(Some(number as usize))
    }

    fn tolerations(&self, value: Option<&Value>, path: &str) -> Result<Vec<Toleration>> {
        let mut tolerations = Vec::new();
        for (place, entry) in self.items(value, path, names::MAX_TOLERATIONS)? {
            let body = self.fields(Some(entry), &place, &TOLERATION_FIELDS)?;
            let word = |key: &str| given(body, key).map(text_of).unwrap_or_default();
            let operator = given(body, "operator");
            let exists = match operator.map(Value::as_str) {
                None | Some(Some("Equal")) => false,
                Some(Some("Exists")) => true,
                _ => {
                    let came = operator.map(shown).unwrap_or_default();
                    return Err(
                        self.fail(&format!("{place}.operator"), format!("must be Exists or Equal; it is {came}"))
                    );
                }
            };
            if given(body, "key").is_none() && !exists {
                return Err(self.fail(&format!("{place}.key"), "may be empty only with the operator Exists"));
            }
            let (key, value, effect) = (word("key"), word("value"), word("effect"));
            tolerations.push(Toleration { key, exists, value, effect, body: body.clone() });
        }
        Ok(tolerations)
    }

    fn capacity(&self, value: Option<&Value>, path: &str) -> Result<Vec<(Option<String>, String, ResourceQuantity)>> {
        if value.is_none_or(Value::is_null) {
            return Ok(Vec::new());
        }
        let place = format!("{path}.requests");
        let body = self.mapping(self.fields(value, path, &["requests"])?.get("requests"), &place)?;
        let read = |(key, amount): (&String, &Value)| {
            let (domain, identifier) =
                key.rsplit_once('/').map_or((None, key.as_str()), |(domain, rest)| (Some(domain), rest));
            let amount = ResourceQuantity::read(amount);
            let amount = amount.map_err(|error: Error| self.fail(&format!("{place}[{key}]"), error))?;
            Ok((domain.map(str::to_owned), identifier.to_owned(), amount))
        };
        body.iter().map(read).collect()
    }
}
