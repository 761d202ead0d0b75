//! What selectors see of a device: driver, attributes and capacities by domain.

use std::collections::HashMap;

use cel::ExecutionError;
use cel::common::traits::{Container, Indexer, Iterable, Iterator as CelIterator, Sizer};
use cel::common::types::{CelBool, CelInt, CelMap, CelMapKey, CelString, MAP_TYPE, Type};
use cel::common::value::{CowVal, StaticVal, Val};

use crate::device::{PoolDevice, QualifiedName};
use crate::selector::functions::{CelQuantity, CelSemver};
use crate::values::AttributeValue;

type Entry = Box<dyn Val>;

/// The value of `device`.
pub(super) fn of(device: &PoolDevice) -> &dyn Val {
    let whole = device.seen.get_or_init(|| {
        let attributes = device.attributes.iter().map(|(name, value)| (name, attribute(value)));
        let capacity =
            device.capacity.iter().map(|(name, value)| (name, Box::new(CelQuantity(value.clone())) as Entry));
        let entries: [(&str, Entry); 4] = [
            ("driver", text(&device.driver)),
            ("attributes", Box::new(Domains::new(attributes))),
            ("capacity", Box::new(Domains::new(capacity))),
            ("allowMultipleAllocations", Box::new(CelBool::from(false))),
        ];
        Box::new(map(entries.map(|(key, value)| (key.to_owned(), value))))
    });
    whole.as_ref()
}

fn text(value: &str) -> Entry {
    Box::new(CelString::from(value.to_owned()))
}

fn attribute(value: &AttributeValue) -> Entry {
    match value {
        AttributeValue::Bool(value) => Box::new(CelBool::from(*value)),
        AttributeValue::Int(value) => Box::new(CelInt::from(*value)),
        AttributeValue::Text(value) => text(value),
        AttributeValue::Version(value) => Box::new(CelSemver(value.clone())),
    }
}

fn map(entries: impl IntoIterator<Item = (String, Entry)>) -> CelMap<'static> {
    let entries: HashMap<CelMapKey<'static>, Entry> =
        entries.into_iter().map(|(key, value)| (CelMapKey::from(key), value)).collect();
    CelMap::from(entries)
}

/// Attributes or capacities by domain, in which a domain that is not there is empty.
#[derive(Clone, Debug)]
struct Domains {
    named: Vec<(CelString<'static>, CelMap<'static>)>,
    none: CelMap<'static>,
}

impl Domains {
    fn new<'a>(entries: impl Iterator<Item = (&'a QualifiedName, Entry)>) -> Self {
        let mut domains: Vec<(&str, Vec<(String, Entry)>)> = Vec::new();
        for ((domain, identifier), value) in entries {
            let entry = (identifier.clone(), value);
            match domains.iter_mut().find(|(name, _)| name == domain) {
                Some((_, entries)) => entries.push(entry),
                None => domains.push((domain, vec![entry])),
            }
        }
        let named = domains.into_iter().map(|(name, entries)| (CelString::from(name.to_owned()), map(entries)));
        Self { named: named.collect(), none: map([]) }
    }

    fn find(&self, domain: &dyn Val) -> Option<&CelMap<'static>> {
        self.named.iter().find(|(name, _)| name.equals(domain)).map(|(_, entries)| entries)
    }
}

impl Val for Domains {
    fn get_type(&self) -> &Type {
        &MAP_TYPE
    }

    fn cel_type() -> &'static Type {
        &MAP_TYPE
    }

    fn as_container(&self) -> Option<&dyn Container> {
        Some(self)
    }

    fn as_indexer<'b, 'v>(&'b self) -> Option<&'b (dyn Indexer + 'v)>
    where
        Self: 'v,
    {
        Some(self)
    }

    fn as_iterable<'b, 'v>(&'b self) -> Option<&'b (dyn Iterable + 'v)>
    where
        Self: 'v,
    {
        Some(self)
    }

    fn as_sizer(&self) -> Option<&dyn Sizer> {
        Some(self)
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v>
    where
        Self: 'v,
    {
        Box::new(self.clone())
    }

    fn as_any(&self) -> Option<&dyn std::any::Any> {
        Some(self)
    }
}

impl StaticVal for Domains {}

impl Container for Domains {
    fn contains(&self, value: &dyn Val) -> Result<bool, ExecutionError> {
        Ok(self.find(value).is_some())
    }
}

impl Indexer for Domains {
    fn get<'b, 'v>(&'b self, domain: &dyn Val) -> Result<CowVal<'b, 'v>, ExecutionError>
    where
        Self: 'v,
    {
        Ok(CowVal::Borrowed(self.find(domain).unwrap_or(&self.none)))
    }

    fn steal<'v>(self: Box<Self>, domain: &dyn Val) -> Result<Box<dyn Val + 'v>, ExecutionError>
    where
        Self: 'v,
    {
        Ok(Box::new(self.find(domain).unwrap_or(&self.none).clone()))
    }
}

impl Sizer for Domains {
    fn size(&self) -> CelInt {
        CelInt::from(self.named.len() as i64)
    }
}

impl Iterable for Domains {
    fn iter<'b, 'v>(&'b self) -> Box<dyn CelIterator<'b, 'v> + 'b>
    where
        Self: 'v,
    {
        Box::new(DomainNames(self.named.iter()))
    }
}

struct DomainNames<'b>(std::slice::Iter<'b, (CelString<'static>, CelMap<'static>)>);

impl<'b, 'v> CelIterator<'b, 'v> for DomainNames<'b> {
    fn next(&mut self) -> Option<&'b (dyn Val + 'v)> {
        self.0.next().map(|(name, _)| name as &dyn Val)
    }
}
