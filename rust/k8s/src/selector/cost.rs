//! What an expression may cost: loops in loops, and texts and lists that double, are counted and ended.
//!
//! Only inside loops (`map`, `all`, ..., and `cel.bind`) can an expression of a few kilobytes take long. There each value
//! that is read or made is counted by its size, and each loop by its length before it begins.

use std::cell::Cell;

use cel::common::ast::operators;
use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedEntryExpr, IdedExpr, LiteralValue};
use cel::common::types::{CelInt, CelList, CelMap, CelString, DYN_TYPE};
use cel::common::value::{CowVal, Val};
use cel::{DeclarationError, Env, ExecutionError, add_member_overload};

/// The most that an expression may cost on one device, as Kubernetes has it.
pub(super) const LIMIT: u64 = 1_000_000;

/// What counts a value; no name that can be written.
const COUNTED: &str = "#counted";
/// What counts a text that a pattern is held against.
const READ: &str = "#read";
/// Functions whose result may be as large as the product of their operands, and what checks that first.
const PRODUCTS: [(&str, &str); 2] = [("replace", "#replace"), ("join", "#join")];
/// What a regular expression costs beside its text, for it is read each time.
const PATTERN: u64 = 5_000;
/// Literals of at least as many bytes are counted.
const LONG: usize = 64;
/// Operators whose value is a truth, or that of one of their operands.
const FREE: [&str; 12] = [
    operators::CONDITIONAL,
    operators::LOGICAL_AND,
    operators::LOGICAL_OR,
    operators::LOGICAL_NOT,
    operators::NOT_STRICTLY_FALSE,
    operators::EQUALS,
    operators::NOT_EQUALS,
    operators::LESS,
    operators::LESS_EQUALS,
    operators::GREATER,
    operators::GREATER_EQUALS,
    operators::IN,
];

thread_local! {
    /// What the expression that runs on this thread has cost.
    static SPENT: Cell<u64> = const { Cell::new(0) };
}

/// Begins to count anew.
pub(super) fn begin() {
    SPENT.set(0);
}

/// Whether the expression cost more than it may.
pub(super) fn is_exceeded() -> bool {
    SPENT.get() > LIMIT
}

fn spend(amount: u64) -> Result<(), ExecutionError> {
    SPENT.set(SPENT.get().saturating_add(amount));
    if is_exceeded() { Err(ExecutionError::function_error("cost", "it costs too much")) } else { Ok(()) }
}

/// Bytes and elements of a value and all that is in it.
fn size(value: &dyn Val) -> u64 {
    if let Some(text) = value.downcast_ref::<CelString<'_>>() {
        return 1 + text.inner().len() as u64;
    }
    if let Some(list) = value.downcast_ref::<CelList<'_>>() {
        return list.inner().iter().fold(1, |sum, value| sum + size(value.as_ref()));
    }
    if let Some(map) = value.downcast_ref::<CelMap<'_>>() {
        return map.inner().values().fold(1, |sum, value| sum + 8 + size(value.as_ref()));
    }
    1
}

fn counted<'b, 'v>(mut arguments: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let Some(value) = arguments.pop() else { return Err(ExecutionError::missing_argument_or_target()) };
    spend(size(value.as_ref()))?;
    Ok(value)
}

fn pattern<'b, 'v>(mut arguments: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let Some(text) = arguments.pop() else { return Err(ExecutionError::missing_argument_or_target()) };
    spend(PATTERN + size(text.as_ref()))?;
    Ok(text)
}

fn replace(
    text: &CelString<'_>,
    from: &CelString<'_>,
    to: &CelString<'_>,
) -> Result<CelString<'static>, ExecutionError> {
    let (text, from, to) = (text.inner(), from.inner(), to.inner());
    let made = text.matches(from).count().saturating_mul(to.len());
    spend((text.len() + made) as u64)?;
    Ok(text.replace(from, to).into())
}

fn replace_some(
    text: &CelString<'_>,
    from: &CelString<'_>,
    to: &CelString<'_>,
    count: &CelInt,
) -> Result<CelString<'static>, ExecutionError> {
    let Ok(most) = usize::try_from(*count.inner()) else { return replace(text, from, to) };
    let (text, from, to) = (text.inner(), from.inner(), to.inner());
    let made = text.matches(from).take(most).count().saturating_mul(to.len());
    spend((text.len() + made) as u64)?;
    Ok(text.replacen(from, to, most).into())
}

fn join<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let texts = |value: &CowVal<'b, 'v>| -> Option<Vec<String>> {
        let list = value.downcast_ref::<CelList<'_>>()?.inner().iter();
        list.map(|item| Some(item.downcast_ref::<CelString<'_>>()?.inner().to_owned())).collect()
    };
    let between = arguments.get(1).map_or(Some(""), |text| Some(text.downcast_ref::<CelString<'_>>()?.inner()));
    if let (Some(list), Some(between)) = (arguments.first(), between) {
        let count = list.downcast_ref::<CelList<'_>>().map_or(0, |list| list.inner().len());
        spend(size(list.as_ref()).saturating_add(count.saturating_mul(between.len()) as u64))?;
        if let Some(texts) = texts(list) {
            return Ok(CowVal::owned(CelString::from(texts.join(between))));
        }
    }
    let types = arguments.iter().map(|value| value.get_type().name().to_owned()).collect();
    Err(ExecutionError::no_such_member_overload("join", types))
}

/// Declares what counts.
pub(super) fn declare(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_overload(COUNTED, COUNTED, vec![DYN_TYPE], counted)?;
    env.add_overload(READ, READ, vec![DYN_TYPE], pattern)?;
    add_member_overload!(env, fn replace: (CelString, CelString, CelString) -> Result<CelString>, name = "#replace")?;
    add_member_overload!(env, fn replace_some: (CelString, CelString, CelString, CelInt) -> Result<CelString>, name = "#replace")?;
    env.add_member_overload("#join", "#join", DYN_TYPE, Vec::new(), join)?;
    env.add_member_overload("#join", "#join_with", DYN_TYPE, vec![DYN_TYPE], join)
}

/// The expression with what counts in it, if it has loops or can multiply texts; else it cannot cost much.
pub(super) fn watched(expression: &IdedExpr) -> Option<IdedExpr> {
    let watched = rewritten(expression.clone(), false);
    (watched != *expression).then_some(watched)
}

fn wrapped(expression: IdedExpr, function: &str) -> IdedExpr {
    let id = expression.id;
    let call = CallExpr { func_name: function.to_owned(), target: None, args: vec![expression] };
    IdedExpr { id, expr: Expr::Call(call) }
}

fn rewritten(IdedExpr { id, expr }: IdedExpr, looped: bool) -> IdedExpr {
    let mut counts = looped;
    let expr = match expr {
        Expr::Comprehension(of) => {
            counts = false;
            Expr::Comprehension(Box::new(comprehension(*of, looped)))
        }
        Expr::Call(call) => {
            counts &= !FREE.contains(&call.func_name.as_str());
            Expr::Call(called(call, looped))
        }
        Expr::Select(mut select) => {
            counts &= !select.test;
            select.operand = Box::new(operand(*select.operand, looped));
            Expr::Select(select)
        }
        Expr::List(mut list) => {
            list.elements = list.elements.into_iter().map(|element| rewritten(element, looped)).collect();
            Expr::List(list)
        }
        Expr::Map(mut map) => {
            map.entries = map.entries.into_iter().map(|entry| entered(entry, looped)).collect();
            Expr::Map(map)
        }
        Expr::Struct(mut structure) => {
            structure.entries = structure.entries.into_iter().map(|entry| entered(entry, looped)).collect();
            Expr::Struct(structure)
        }
        Expr::Literal(literal) => {
            counts &= matches!(&literal, LiteralValue::String(text) if text.inner().len() >= LONG);
            Expr::Literal(literal)
        }
        other => other,
    };
    let found = IdedExpr { id, expr };
    if counts { wrapped(found, COUNTED) } else { found }
}

/// What a field is taken of: a path of names stays one, for it is looked up as a whole.
fn operand(IdedExpr { id, expr }: IdedExpr, looped: bool) -> IdedExpr {
    match expr {
        Expr::Ident(_) => IdedExpr { id, expr },
        Expr::Select(mut select) if !select.test => {
            select.operand = Box::new(operand(*select.operand, looped));
            IdedExpr { id, expr: Expr::Select(select) }
        }
        expr => rewritten(IdedExpr { id, expr }, looped),
    }
}

fn entered(mut entry: IdedEntryExpr, looped: bool) -> IdedEntryExpr {
    match &mut entry.expr {
        EntryExpr::StructField(field) => field.value = rewritten(std::mem::take(&mut field.value), looped),
        EntryExpr::MapEntry(pair) => {
            pair.key = rewritten(std::mem::take(&mut pair.key), looped);
            pair.value = rewritten(std::mem::take(&mut pair.value), looped);
        }
    }
    entry
}

fn called(mut call: CallExpr, looped: bool) -> CallExpr {
    // The one function that is called like a method of a name.
    let is_qualified = call.func_name == "quote";
    call.target = call.target.map(|target| match is_qualified {
        true => Box::new(operand(*target, looped)),
        false => Box::new(rewritten(*target, looped)),
    });
    call.args = call.args.into_iter().map(|argument| rewritten(argument, looped)).collect();
    let guarded = PRODUCTS.into_iter().find(|(name, _)| *name == call.func_name);
    if let (Some(_), Some((_, guarded))) = (&call.target, guarded) {
        call.func_name = guarded.to_owned();
    }
    if looped && call.func_name == "matches" {
        call.target = call.target.map(|target| Box::new(wrapped(*target, READ)));
    }
    call
}

fn comprehension(of: ComprehensionExpr, looped: bool) -> ComprehensionExpr {
    let is_nothing = matches!(&of.iter_range.expr, Expr::List(list) if list.elements.is_empty());
    let iter_range = rewritten(of.iter_range, looped);
    let is_result = matches!(&of.result.expr, Expr::Ident(name) if *name == of.accu_var);
    ComprehensionExpr {
        iter_range: if is_nothing { iter_range } else { wrapped(iter_range, COUNTED) },
        accu_init: rewritten(of.accu_init, true),
        loop_step: step(of.loop_step, &of.accu_var),
        result: if is_result { of.result } else { rewritten(of.result, true) },
        ..of
    }
}

/// A step keeps its form, by which the language knows that it appends or absorbs errors; what is in it counts.
fn step(IdedExpr { id, expr }: IdedExpr, accumulator: &str) -> IdedExpr {
    let is_accumulator = |expr: &IdedExpr| matches!(&expr.expr, Expr::Ident(name) if name == accumulator);
    match expr {
        Expr::Ident(name) if name == accumulator => IdedExpr { id, expr: Expr::Ident(name) },
        Expr::Call(mut call)
            if call.target.is_none()
                && (FREE[..3].contains(&call.func_name.as_str()) || call.args.first().is_some_and(is_accumulator)) =>
        {
            call.args = call.args.into_iter().map(|argument| step(argument, accumulator)).collect();
            IdedExpr { id, expr: Expr::Call(call) }
        }
        Expr::List(mut list) => {
            list.elements = list.elements.into_iter().map(|element| rewritten(element, true)).collect();
            IdedExpr { id, expr: Expr::List(list) }
        }
        expr => rewritten(IdedExpr { id, expr }, true),
    }
}
