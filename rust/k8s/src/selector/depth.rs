//! How deep an expression lies in itself, told from its text alone: what reads it is recursive, and must not run out of
//! stack.

/// How many operators and brackets may lie in each other; Kubernetes allows about as many.
pub(super) const MAX_DEPTH: usize = 96;

/// How deep expressions may be that are read, or evaluated, on whatever stack there is: a bracket takes a dozen calls of
/// the parser, and one or two of what evaluates.
pub(super) const READ_ANYWHERE: usize = 4;
pub(super) const EVALUATED_ANYWHERE: usize = 24;

/// Bytes of the stack for others.
const STACK: usize = 64 << 20;

/// Does work that is as recursive as an expression is deep, where there is enough stack; `None` if there is none.
pub(super) fn with_stack<R: Send>(depth: usize, anywhere: usize, work: impl FnOnce() -> R + Send) -> Option<R> {
    if depth <= anywhere {
        return Some(work());
    }
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work).ok()?;
        thread.join().ok()
    })
}

/// How many operators and brackets lie in each other, [`MAX_DEPTH`] and one more at most. `&&`, `||` and commas put their
/// operands side by side.
pub(super) fn depth(expression: &str) -> usize {
    let mut deepest = 0;
    // Of every open bracket: operators that its last operand has so far.
    let mut chains = vec![0];
    let mut total: usize = 0;
    let bytes = expression.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let rest = &bytes[at..];
        let mut step = 1;
        match byte {
            b'\'' | b'"' => step = text(rest, at > 0 && matches!(bytes[at - 1], b'r' | b'R')),
            b'/' if rest.starts_with(b"//") => step = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()),
            b'(' | b'[' | b'{' => {
                chains.push(1);
                total += 1;
            }
            b')' | b']' | b'}' => {
                // What was in it is over; that it was there is one step of the operand.
                let inner = if chains.len() > 1 { chains.pop().unwrap_or(0) } else { 0 };
                total = total.saturating_sub(inner);
                grow(&mut chains, &mut total);
            }
            b',' | b'&' | b'|' => {
                let bracket = usize::from(chains.len() > 1);
                if let Some(last) = chains.last_mut() {
                    total = total - *last + bracket;
                    *last = bracket;
                }
            }
            b'.' | b'+' | b'-' | b'*' | b'/' | b'%' | b'<' | b'>' | b'=' | b'!' | b'?' => grow(&mut chains, &mut total),
            b'i' if is_word(bytes, at, b"in") => grow(&mut chains, &mut total),
            _ => {}
        }
        deepest = deepest.max(total);
        if deepest > MAX_DEPTH {
            return MAX_DEPTH + 1;
        }
        at += step;
    }
    deepest
}

fn grow(chains: &mut [usize], total: &mut usize) {
    if let Some(last) = chains.last_mut() {
        *last += 1;
        *total += 1;
    }
}

fn is_word(bytes: &[u8], at: usize, word: &[u8]) -> bool {
    let is_letter = |place: Option<usize>| {
        place.and_then(|place| bytes.get(place)).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
    };
    bytes[at..].starts_with(word) && !is_letter(at.checked_sub(1)) && !is_letter(Some(at + word.len()))
}

/// How long the text in quotes is with which this begins.
fn text(rest: &[u8], raw: bool) -> usize {
    let quote = rest[0];
    let long = rest.len() > 2 && rest[1] == quote && rest[2] == quote;
    let width = if long { 3 } else { 1 };
    let mut at = width;
    while at < rest.len() {
        match rest[at] {
            b'\\' if !raw => at += 1,
            byte if byte == quote && (!long || rest[at..].starts_with(&[quote; 3])) => return at + width,
            _ => {}
        }
        at += 1;
    }
    // It does not end, which the parser tells; meanwhile a second quote is no text.
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_depth_is_of_operators_in_each_other() {
        let is_shallow = |expression: &str| depth(expression) <= MAX_DEPTH;
        let clause = "device.attributes['a.b'].x in [1, 2, 3] && (!has(a.b) || \"((((\" == '''+'+''')";
        assert!(is_shallow(&vec![clause; 100].join(" || ")));
        assert!(is_shallow(&format!("'{}'", "(".repeat(1000))));
        for (left, middle, right) in [
            ("(", "1", ")"),
            ("[", "1", "]"),
            ("f(", "1", ")"),
            ("f(1, ", "1", ")"),
            ("[1, ", "1", "]"),
            ("(true && ", "true", ")"),
            ("1 + ", "1", ""),
            ("", "a", ".a"),
            ("", "a", "[1]"),
            ("", "a", ".f(1)"),
            ("1 == ", "1", ""),
            ("1 in ", "[]", ""),
            ("'a' ? a : ", "a", ""),
            ("''(", "a", ""),
        ] {
            let deep = |count| format!("{}{middle}{}", left.repeat(count), right.repeat(count));
            assert!(is_shallow(&deep(20)) && !is_shallow(&deep(200)), "{left}{middle}{right}");
        }
    }
}
