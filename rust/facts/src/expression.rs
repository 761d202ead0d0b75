//! Arithmetic in spec files: `144*2.517`, and formulas over named figures.
//!
//! Only numbers, names, `+ - * / **`, the sign `-`, parentheses, `min` and `max` are read.

use std::collections::BTreeSet;

use crate::error::{Error, Result};

/// Longer texts are no arithmetic on a figure.
const LONGEST: usize = 400;
/// Larger exponents make numbers that are no figure either.
const LARGEST_EXPONENT: f64 = 64.0;

/// An expression, read and ready to be evaluated.
///
/// ```
/// use trn3_facts::Expression;
///
/// let all = Expression::parse("chips * chip.hbm_bandwidth")?;
/// assert_eq!(all.names(), ["chip.hbm_bandwidth", "chips"]);
/// let value = all.value(|name| Some(if name == "chips" { 144.0 } else { 4.9e12 }))?;
/// assert_eq!(value, 7.056e14);
/// # Ok::<(), trn3_facts::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    text: String,
    root: Node,
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Number(f64),
    Name(String),
    Negative(Box<Node>),
    Binary(Operator, Box<Node>, Box<Node>),
    Extreme { largest: bool, of: Vec<Node> },
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Power,
}

impl Expression {
    /// Reads a text.
    ///
    /// # Errors
    /// [`Error::Expression`] if it is something else, or too long.
    pub fn parse(text: &str) -> Result<Self> {
        let length = text.chars().count();
        if length > LONGEST {
            return Err(Error::Expression(format!("an expression has {length} characters; at most {LONGEST}")));
        }
        let mut reader = Reader { text, tokens: tokens(text)?, at: 0 };
        let root = reader.sum()?;
        match reader.next() {
            None => Ok(Self { text: text.to_owned(), root }),
            Some(token) => Err(reader.refused(&format!("{token} is not allowed there"))),
        }
    }

    /// The names that it reads, sorted.
    pub fn names(&self) -> Vec<&str> {
        let mut found = BTreeSet::new();
        collect(&self.root, &mut found);
        found.into_iter().collect()
    }

    /// Its value, given what names stand for.
    ///
    /// # Errors
    /// [`Error::Expression`] for a name that is not known, and where there is no finite value.
    pub fn value(&self, known: impl Fn(&str) -> Option<f64>) -> Result<f64> {
        let value = self.of(&self.root, &known)?;
        if !value.is_finite() {
            return Err(Error::Expression(format!("'{}' is {value}; must be finite", self.text)));
        }
        Ok(value)
    }

    fn of(&self, node: &Node, known: &impl Fn(&str) -> Option<f64>) -> Result<f64> {
        let fail = |what: String| Err(Error::Expression(format!("'{}'{what}", self.text)));
        Ok(match node {
            Node::Number(number) => *number,
            Node::Name(name) => match known(name) {
                Some(value) => value,
                None => return fail(format!(": {name} is not known")),
            },
            Node::Negative(inner) => -self.of(inner, known)?,
            Node::Extreme { largest, of } => {
                let mut values = Vec::with_capacity(of.len());
                for node in of {
                    values.push(self.of(node, known)?);
                }
                values.into_iter().reduce(if *largest { f64::max } else { f64::min }).unwrap_or(f64::NAN)
            }
            Node::Binary(operator, left, right) => {
                let (left, right) = (self.of(left, known)?, self.of(right, known)?);
                match operator {
                    Operator::Add => left + right,
                    Operator::Subtract => left - right,
                    Operator::Multiply => left * right,
                    Operator::Divide if right == 0.0 => return fail(" has no value: division by zero".to_owned()),
                    Operator::Divide => left / right,
                    Operator::Power if right.abs() > LARGEST_EXPONENT => {
                        return fail(format!(": exponent {right}; at most {LARGEST_EXPONENT}"));
                    }
                    Operator::Power => left.powf(right),
                }
            }
        })
    }
}

/// The value of a text without names.
///
/// # Errors
/// As [`Expression::parse`] and [`Expression::value`].
pub fn evaluate(text: &str) -> Result<f64> {
    Expression::parse(text)?.value(|_| None)
}

/// A formula with numbers for its names: `8 x 4.9 TB/s` for `cores * rate`.
pub(crate) fn with_numbers(text: &str, number: impl Fn(&str) -> Option<String>) -> Result<String> {
    let (mut out, mut end) = (String::new(), 0);
    for (start, token) in tokens(text)? {
        if let Token::Name(name) = token {
            out.push_str(&text[end..start]);
            end = start + name.len();
            out.push_str(&number(&name).unwrap_or(name));
        }
    }
    out.push_str(&text[end..]);
    Ok(out.replace(" * ", " x "))
}

fn collect<'a>(node: &'a Node, found: &mut BTreeSet<&'a str>) {
    match node {
        Node::Number(_) => {}
        Node::Name(name) => {
            found.insert(name);
        }
        Node::Negative(inner) => collect(inner, found),
        Node::Binary(_, left, right) => {
            collect(left, found);
            collect(right, found);
        }
        Node::Extreme { of, .. } => of.iter().for_each(|node| collect(node, found)),
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Number(f64),
    Name(String),
    Sign(&'static str),
}

impl std::fmt::Display for Token {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => write!(out, "{number}"),
            Self::Name(name) => out.write_str(name),
            Self::Sign(sign) => out.write_str(sign),
        }
    }
}

const SIGNS: [&str; 8] = ["**", "+", "-", "*", "/", "(", ")", ","];

/// The words of a text, each with where it begins.
fn tokens(text: &str) -> Result<Vec<(usize, Token)>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let long = |inside: &dyn Fn(char) -> bool| rest.find(|letter| !inside(letter)).unwrap_or(rest.len());
        if first.is_whitespace() {
            at += first.len_utf8();
        } else if first.is_ascii_alphabetic() || first == '_' {
            let length = long(&|letter| letter.is_ascii_alphanumeric() || letter == '_' || letter == '.');
            found.push((at, Token::Name(rest[..length].to_owned())));
            at += length;
        } else if first.is_ascii_digit() || first == '.' {
            let mut length = long(&|letter| letter.is_ascii_digit() || letter == '.');
            if let Some(exponent) = rest[length..].strip_prefix(['e', 'E']) {
                let sign = usize::from(exponent.starts_with(['+', '-']));
                let digits = exponent[sign..].find(|letter: char| !letter.is_ascii_digit());
                length += 1 + sign + digits.unwrap_or(exponent.len() - sign);
            }
            let Ok(number) = rest[..length].parse() else {
                return Err(Error::Expression(format!("'{text}' is no arithmetic: {} is no number", &rest[..length])));
            };
            found.push((at, Token::Number(number)));
            at += length;
        } else if let Some(sign) = SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
            found.push((at, Token::Sign(sign)));
            at += sign.len();
        } else {
            return Err(Error::Expression(format!(
                "'{text}': {first} is not allowed; numbers, names, + - * / **, min, max"
            )));
        }
    }
    Ok(found)
}

struct Reader<'a> {
    text: &'a str,
    tokens: Vec<(usize, Token)>,
    at: usize,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.at).map(|(_, token)| token.clone());
        self.at += 1;
        token
    }

    fn takes(&mut self, sign: &str) -> bool {
        let found = matches!(self.tokens.get(self.at), Some((_, Token::Sign(next))) if *next == sign);
        self.at += usize::from(found);
        found
    }

    fn refused(&self, what: &str) -> Error {
        Error::Expression(format!("'{}' is no arithmetic: {what}", self.text))
    }

    fn binary(operator: Operator, left: Node, right: Node) -> Node {
        Node::Binary(operator, Box::new(left), Box::new(right))
    }

    fn sum(&mut self) -> Result<Node> {
        let mut left = self.product()?;
        loop {
            let operator = if self.takes("+") {
                Operator::Add
            } else if self.takes("-") {
                Operator::Subtract
            } else {
                return Ok(left);
            };
            left = Self::binary(operator, left, self.product()?);
        }
    }

    fn product(&mut self) -> Result<Node> {
        let mut left = self.signed()?;
        loop {
            let operator = if self.takes("*") {
                Operator::Multiply
            } else if self.takes("/") {
                Operator::Divide
            } else {
                return Ok(left);
            };
            left = Self::binary(operator, left, self.signed()?);
        }
    }

    fn signed(&mut self) -> Result<Node> {
        if self.takes("-") {
            return Ok(Node::Negative(Box::new(self.signed()?)));
        }
        let base = self.atom()?;
        // A power binds more than the sign before it, and its exponent may have one.
        if self.takes("**") { Ok(Self::binary(Operator::Power, base, self.signed()?)) } else { Ok(base) }
    }

    fn atom(&mut self) -> Result<Node> {
        match self.next() {
            Some(Token::Number(number)) => Ok(Node::Number(number)),
            Some(Token::Name(name)) if self.takes("(") => self.call(&name),
            Some(Token::Name(name)) => match name.split('.').all(|part| !part.is_empty()) {
                true if ["min", "max"].contains(&name.as_str()) => Err(self.refused(&format!("{name} of what?"))),
                true => Ok(Node::Name(name)),
                false => Err(self.refused(&format!("{name} is no name"))),
            },
            Some(Token::Sign("(")) => {
                let inner = self.sum()?;
                if self.takes(")") { Ok(inner) } else { Err(self.refused("a ) is missing")) }
            }
            Some(token) => Err(self.refused(&format!("{token} is not allowed there"))),
            None => Err(self.refused("it ends too early")),
        }
    }

    fn call(&mut self, name: &str) -> Result<Node> {
        let mut of = vec![self.sum()?];
        while self.takes(",") {
            of.push(self.sum()?);
        }
        match (name, self.takes(")"), of.len()) {
            ("min" | "max", true, 2..) => Ok(Node::Extreme { largest: name == "max", of }),
            ("min" | "max", true, _) => Err(self.refused(&format!("{name} needs two or more"))),
            ("min" | "max", false, _) => Err(self.refused("a ) is missing")),
            _ => Err(self.refused(&format!("{name}(...) is not allowed; min and max are"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_operators_bind_as_in_arithmetic() {
        for (text, value) in [
            ("1+2*3", 7.0),
            ("(1+2)*3", 9.0),
            ("8-2-1", 5.0),
            ("64/4/2", 8.0),
            ("-2**2", -4.0),
            ("2**-1", 0.5),
            ("2**3**2", 512.0),
            ("2*-3", -6.0),
            ("min(3, 2, 4) + max(1, 5)", 7.0),
            (" 2.5e3 * .5 ", 1250.0),
            ("1e-3", 0.001),
            ("820*2**30/1e9", 880.468_295_68),
        ] {
            assert!((evaluate(text).expect(text) - value).abs() <= 1e-12 * value.abs(), "{text}");
        }
    }

    #[test]
    fn test_what_is_no_arithmetic_is_refused() {
        for text in [
            "",
            "1;2",
            "a[0]",
            "1 < 2",
            "'a'",
            "+1",
            "1//2",
            "1 2",
            "max(1)",
            "max(*[1, 2])",
            "f(1, 2)",
            "a.b().c",
            "(1",
            "1e",
            "..",
            "min",
            "2**65",
            "1/0",
            "x",
            "1e308*1e308",
            "().a",
            "é",
        ] {
            assert!(matches!(evaluate(text), Err(Error::Expression(_))), "{text}");
        }
        assert!(evaluate(&"9".repeat(500)).expect_err("long").to_string().contains("at most 400"));
        assert!(evaluate(&format!("{}1{}", "(".repeat(199), ")".repeat(199))).is_ok());
    }

    #[test]
    fn test_formulas_show_numbers_for_names() {
        let text = with_numbers("min(a * 16 / 4, core.b_2)", |name| (name != "min").then(|| format!("<{name}>")));
        assert_eq!(text.expect("reads"), "min(<a> x 16 / 4, <core.b_2>)");
    }
}
