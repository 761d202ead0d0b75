//! Selectors on a chip of a Trn2 instance.

use proptest::prelude::*;

use super::*;
use crate::{Document, SliceOptions, devices, resource_slices};

const A: &str = "device.attributes['neuron.aws.com']";
const C: &str = "device.capacity['neuron.aws.com']";

fn chip() -> PoolDevice {
    let options = SliceOptions { driver: "neuron.aws.com".to_owned(), ..SliceOptions::default() };
    let slices = resource_slices("trn2", &options).expect("slices");
    let documents: Vec<_> = slices.into_iter().flat_map(|body| Document::read("slices", body).expect("one")).collect();
    devices(&documents).expect("devices").swap_remove(6)
}

fn said(expression: &str) -> String {
    let expression = expression.replace("A.", &format!("{A}.")).replace("C.", &format!("{C}."));
    match Selector::compile("here", &expression).and_then(|selector| selector.accepts(&chip())) {
        Ok(truth) => truth.to_string(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn test_selectors_select() {
    for expression in [
        "device.driver == 'neuron.aws.com'",
        "A.deviceId == 6",
        "A.topology_x == 1 && A.topology_y == 2",
        "!(A.deviceId < 6 || A.deviceId >= 7)",
        "A.instanceType == 'trn2.48xlarge'",
        "A.deviceId in [4, 5, 6]",
        "A.instanceType.startsWith('trn2') && A.instanceType.endsWith('xlarge')",
        "A.instanceType.contains('48')",
        "A.instanceType.matches('^trn[23]')",
        "A.instanceType.upperAscii() == 'TRN2.48XLARGE'",
        "!has(A.capacityBlockId)",
        "!has(device.attributes['other.example'].x)",
        "'deviceId' in device.attributes['neuron.aws.com']",
        "'neuron.aws.com' in device.attributes && !('x' in device.attributes)",
        "device.attributes.exists(d, d == 'neuron.aws.com') && size(device.attributes) == 4",
        "!has(A.x) || A.x == 1",
        "A.x == 1 || true",
        "!device.allowMultipleAllocations",
        "A.deviceId > 3 ? true : false",
        "device.attributes['resource.aws.com'].devicegroup1_id == '0000:16:00.0'",
        "C.memory == quantity('98304Mi')",
        "C.memory.isGreaterThan(quantity('95Gi')) && C.memory.isLessThan(quantity('97Gi'))",
        "C.memory.compareTo(quantity('100G')) == 1",
        "quantity('1.5').asApproximateFloat() == 1.5 && !quantity('1.5').isInteger()",
        "quantity('-2Ki').asInteger() == -2048",
        "A.draDriverVersion.isLessThan(semver('1.0.1'))",
        "A.draDriverVersion == semver('1.0.0+build')",
        "A.draDriverVersion.major() == 1 && A.draDriverVersion.minor() + A.draDriverVersion.patch() == 0",
        "!(isSemver('1.2') || isQuantity('x')) && isSemver('1.2.0') && isQuantity('1Gi')",
        "cel.bind(a, device.attributes['neuron.aws.com'], a.deviceId == 6 && cel.bind(b, a.topology_x, b == 1))",
        "['trn1', 'trn2'].exists(each, A.instanceType.startsWith(each))",
        "timestamp('2024-01-01T00:00:00Z') < timestamp('2024-01-02T00:00:00Z') && duration('1h') < duration('2h')",
        "[1, 2].map(x, x * 2) == [2, 4] && [1, 2].all(x, x > 0)",
    ] {
        assert_eq!(said(expression), "true", "{expression}");
    }
}

#[test]
fn test_selectors_that_cannot_be_read_have_a_position() {
    for (expression, text) in [
        ("device.driver ==", "line 1, column"),
        ("", "line 1, column 1"),
        ("true &&\n  (false", "line 2, column"),
        ("A[?'x'].orValue(1) == 1", "optional selection with ? is not supported, has"),
        ("device.attributes['x'].?y == 1", "optional selection with ? is not supported, has"),
        (&"x".repeat(10241), "10241 bytes; at most 10240"),
        (&"(".repeat(5000), "more than 96 operators in each other"),
        (&"(".repeat(95), "cannot be read"),
    ] {
        let error = Selector::compile("here", expression).expect_err(expression).to_string();
        assert!(error.contains(text) && !error.contains('\n'), "{expression}: {error}");
    }
}

#[test]
fn test_expressions_as_deep_as_may_be_are_read_and_evaluated() {
    for (left, middle, right) in [
        ("(", "1", ")"),
        ("[", "1", "]"),
        ("size(", "'a'", ")"),
        ("1 + ", "1", ""),
        ("", "a", ".a"),
        ("", "a", "[1]"),
        ("1 == ", "1", ""),
        ("true ? 1 : ", "1", ""),
        ("!", "true", ""),
        ("-", "1", ""),
        ("1 in ", "[]", ""),
    ] {
        for count in (1..=48).chain(80..=96) {
            // What it gives does not matter, as long as there is an answer.
            said(&format!("{}{middle}{}", left.repeat(count), right.repeat(count)));
        }
    }
}

#[test]
fn test_selectors_that_fail_say_why() {
    for (expression, text) in [
        ("A.deviceID == 6", "no attribute deviceID; did you mean deviceId? (it has chip, "),
        ("A.devicegroup4_id == 'x'", "has devicegroup4_id in the domain resource.aws.com alone; write device"),
        ("device.foo == 1", "no attribute foo"),
        ("A.deviceId", "gives int, not a truth value, for trn2-instance-0/neuron-device-6"),
        ("quantity('1')", "gives quantity, not"),
        ("device", "gives map, not"),
        ("device.attributes", "gives map, not"),
        ("1.5", "gives double, not"),
        ("A.deviceId > 'x'", "types that do not go together (int and string)"),
        ("1 + 'x' == 2", "types that do not go together (int and string)"),
        ("1.0 + 'x' == 2.0", "types that do not go together (double and string)"),
        ("-'a' == 1", "types that do not go together (string)"),
        ("!A.deviceId", "types that do not go together (int)"),
        ("A.draDriverVersion > semver('1.0.0')", "types that do not go together"),
        ("C.memory > quantity('1Gi')", "types that do not go together"),
        ("C.memory.isGreaterThan('x')", "types that do not go together"),
        ("size(1) == 1", "types that do not go together"),
        ("quantty('1Gi') == quantity('1Gi')", "quantty is neither a variable nor a function; did you mean quantity?"),
        ("A.instanceType.foo()", "foo is neither a variable nor a function"),
        ("devic.driver == 'x'", "devic is neither a variable nor a function; did you mean device?"),
        ("x", "x is neither a variable nor a function"),
        ("quantity('many') == quantity('1')", "'many' is not a quantity"),
        ("semver('1.0') == semver('1.0.0')", "'1.0' is not a semantic version"),
        ("1 / 0 == 1", "fails for trn2-instance-0/neuron-device-6: division by zero"),
        ("5 % 0 == 1", "by zero"),
        ("[1, 2][5] == 1", "fails for trn2-instance-0/neuron-device-6: list index out of range"),
        ("9223372036854775807 + 1 == 0", "overflow"),
        ("'a'.matches('(')", "fails for"),
        ("quantity('1e30').asInteger() == 1", "1e30 is wider than 64 bits"),
    ] {
        let error = said(expression);
        assert!(error.starts_with("here: ") && error.contains(text), "{expression}: {error}");
        assert!(!error.contains('\n'), "{expression}: {error}");
    }
}

#[test]
fn test_what_costs_too_much_is_refused_soon() {
    let list = |count: usize| format!("[{}]", vec!["0"; count].join(","));
    let nest = |depth: usize| {
        let ways = (0..depth).map(|level| format!("{}.all(x{level}, ", list(100))).collect::<String>();
        format!("{ways}true{}", ")".repeat(depth))
    };
    let doubling = |step: &dyn Fn(usize) -> String, last: &str| {
        let names = (1..=30).map(|level| format!("cel.bind(a{level}, {}, ", step(level - 1))).collect::<String>();
        format!(
            "cel.bind(a0, {}, {names}{last}{}",
            if last.contains("size") { "'0123456789'" } else { "[1]" },
            ")".repeat(31)
        )
    };
    // Its loops are short, but their lists are not.
    let soon = format!("{0}.all(x, {0}.exists(y, true))", list(1000));
    for expression in [
        nest(4),
        // What absorbs errors does not absorb this one.
        format!("{}.exists(x, {soon} || false)", list(10)),
        format!("{soon} || true"),
        format!("{}.map(x, {}.map(y, {}.map(z, x + y + z))).size() == 0", list(300), list(300), list(300)),
        doubling(&|level| format!("a{level} + a{level}"), "a30.size() > 0"),
        doubling(&|level| format!("a{level}.replace('', a{level})"), "a30.size() > 0"),
        doubling(&|level| format!("[a{level}, a{level}, a{level}]"), "a30 == a29"),
        format!("cel.bind(s, '{}', {}.all(x, {}.all(y, s.contains('x'))))", "x".repeat(2000), list(1000), list(1000)),
        format!("{}.all(x, {}.all(y, 'a'.matches('(a{{0,50}}){{0,50}}')))", list(100), list(100)),
        "'a'.replace('', 'b')".to_owned() + &format!(".replace('', '{}')", "b".repeat(90)).repeat(40) + " == ''",
    ] {
        let began = std::time::Instant::now();
        let error = said(&expression);
        assert!(
            error.contains("costs more than 1000000, as much as Kubernetes allows, for trn2-instance-0"),
            "{error}"
        );
        assert!(began.elapsed().as_secs() < 20, "{expression}");
    }
}

#[test]
fn test_loops_that_cost_little_give_what_they_gave() {
    for (expression, value) in [
        ("[1, 2, 3].map(x, x * 2) == [2, 4, 6]", "true"),
        ("[1, 2, 3].filter(x, x > 1).size() == 2", "true"),
        ("[1, 2, 3].exists_one(x, x == 2) && [1, 0].exists(x, 1 / x == 1)", "true"),
        ("[0, 1].all(x, 1 / x == 1)", "by zero"),
        ("cel.bind(a, 'x-y', a.replace('-', a).split('x').join('.') == '.-y.y' || a.size() == 3)", "true"),
        ("cel.bind(a, device, a.attributes[a.driver].deviceId == 6 && has(a.driver))", "true"),
        ("['neuron'].all(x, device.driver.startsWith(x) || strings.quote(x) == '\\\"neuron\\\"')", "true"),
        ("{'a': 1}.all(x, {x: [x]}[x][0] == 'a')", "true"),
        ("'a,b'.split(',').map(x, x.matches('^[ab]$')) == [true, true]", "true"),
        ("'aba'.replace('a', 'c', 1) == 'cba' && ['a', 'b'].join() == 'ab'", "true"),
        ("'a'.replace(1, 2) == ''", "types that do not go together (string and int)"),
    ] {
        let found = said(expression);
        assert!(found.contains(value), "{expression}: {found}");
    }
}

proptest! {
    #[test]
    fn test_any_text_is_an_expression_or_refused_in_one_line(text in "[ -~]{0,24}") {
        if let Err(error) = Selector::compile("here", &text).and_then(|selector| selector.accepts(&chip())) {
            prop_assert!(!error.to_string().contains('\n'));
        }
    }

    #[test]
    fn test_numbers_compare_as_numbers(left in -9i64..9, right in -9i64..9) {
        prop_assert_eq!(said(&format!("{left} < {right}")), (left < right).to_string());
        prop_assert_eq!(said(&format!("quantity('{left}').compareTo(quantity('{right}')) < 0")), (left < right).to_string());
    }
}
