//! Moving elements between a memory and contiguous codes or values, line by line.

use super::resolve::{Line, Resolved};

/// The element at a byte.
#[inline]
fn load<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut element = [0; N];
    element.copy_from_slice(&bytes[at..at + N]);
    element
}

#[inline]
fn places(start: usize, line: &Line) -> impl Iterator<Item = usize> {
    let stride = line.stride;
    (0..line.count as isize).map(move |index| (start as isize + index * stride) as usize)
}

/// Calls `take` with each element of a line that is not a run.
#[inline]
fn each_of_line<const N: usize>(bytes: &[u8], start: usize, line: &Line, mut take: impl FnMut([u8; N])) {
    match usize::try_from(line.stride) {
        Ok(0) => {
            let element = load(bytes, start);
            (0..line.count).for_each(|_| take(element));
        }
        // One check a line instead of one an element.
        Ok(stride) if stride > N && line.count > 0 => {
            let span = &bytes[start..start + (line.count - 1) * stride + N];
            let mut steps = span.chunks_exact(stride);
            steps.by_ref().for_each(|step| take(load(step, 0)));
            take(load(steps.remainder(), 0));
        }
        _ => places(start, line).for_each(|at| take(load(bytes, at))),
    }
}

/// Calls `one` with each element and the slot it belongs to; slots of rows left out stay as they are.
#[inline]
pub(super) fn read<T, const N: usize>(bytes: &[u8], from: &Resolved, out: &mut [T], one: impl Fn([u8; N]) -> T) {
    let mut rest = out;
    from.each_line(|line| {
        let (out, tail) = std::mem::take(&mut rest).split_at_mut(line.count);
        rest = tail;
        let Some(start) = line.start else { return };
        if line.stride == N as isize {
            let elements = bytes[start..start + line.count * N].as_chunks::<N>().0;
            for (slot, element) in out.iter_mut().zip(elements) {
                *slot = one(*element);
            }
        } else {
            let mut slots = out.iter_mut();
            each_of_line(bytes, start, &line, |element| {
                if let Some(slot) = slots.next() {
                    *slot = one(element);
                }
            });
        }
    });
}

/// Stores `one` of each value at its place; rows left out are not stored.
#[inline]
pub(super) fn write<T: Copy, const N: usize>(
    bytes: &mut [u8],
    to: &Resolved,
    values: &[T],
    one: impl Fn(T) -> [u8; N],
) {
    let mut rest = values;
    to.each_line(|line| {
        let (values, tail) = rest.split_at(line.count);
        rest = tail;
        let Some(start) = line.start else { return };
        if line.stride == N as isize {
            let elements = bytes[start..start + line.count * N].as_chunks_mut::<N>().0;
            for (value, element) in values.iter().zip(elements) {
                *element = one(*value);
            }
        } else {
            for (value, at) in values.iter().zip(places(start, &line)) {
                bytes[at..at + N].copy_from_slice(&one(*value));
            }
        }
    });
}

/// Replaces each element of an operand whose rows are runs by `one` of itself and a value.
#[inline]
pub(super) fn update<T: Copy, const N: usize>(
    bytes: &mut [u8],
    at: &Resolved,
    values: &[T],
    one: impl Fn([u8; N], T) -> [u8; N],
) {
    let mut rest = values;
    at.each_line(|line| {
        let (values, tail) = rest.split_at(line.count);
        rest = tail;
        let Some(start) = line.start else { return };
        let elements = bytes[start..start + line.count * N].as_chunks_mut::<N>().0;
        for (value, element) in values.iter().zip(elements) {
            *element = one(*element, *value);
        }
    });
}

/// Gathers elements of any size as contiguous codes.
pub(super) fn gather(bytes: &[u8], from: &Resolved, codes: &mut [u8]) {
    let mut rest = codes;
    from.each_line(|line| {
        let (out, tail) = std::mem::take(&mut rest).split_at_mut(line.count * from.item);
        rest = tail;
        let Some(start) = line.start else { return };
        if line.stride == from.item as isize {
            out.copy_from_slice(&bytes[start..start + out.len()]);
            return;
        }
        match from.item {
            1 => gather_line::<1>(bytes, start, &line, out),
            2 => gather_line::<2>(bytes, start, &line, out),
            _ => gather_line::<4>(bytes, start, &line, out),
        }
    });
}

fn gather_line<const N: usize>(bytes: &[u8], start: usize, line: &Line, out: &mut [u8]) {
    let mut slots = out.as_chunks_mut::<N>().0.iter_mut();
    each_of_line(bytes, start, line, |element| {
        if let Some(slot) = slots.next() {
            *slot = element;
        }
    });
}

/// Scatters contiguous codes of any size.
pub(super) fn scatter(bytes: &mut [u8], to: &Resolved, codes: &[u8]) {
    let mut rest = codes;
    to.each_line(|line| {
        let (codes, tail) = rest.split_at(line.count * to.item);
        rest = tail;
        let Some(start) = line.start else { return };
        if line.stride == to.item as isize {
            bytes[start..start + codes.len()].copy_from_slice(codes);
            return;
        }
        match to.item {
            1 => scatter_line::<1>(bytes, start, &line, codes),
            2 => scatter_line::<2>(bytes, start, &line, codes),
            _ => scatter_line::<4>(bytes, start, &line, codes),
        }
    });
}

fn scatter_line<const N: usize>(bytes: &mut [u8], start: usize, line: &Line, codes: &[u8]) {
    for (code, at) in codes.as_chunks::<N>().0.iter().zip(places(start, line)) {
        bytes[at..at + N].copy_from_slice(code);
    }
}

/// Scatters those of contiguous codes whose mask is true.
pub(super) fn scatter_where(bytes: &mut [u8], to: &Resolved, codes: &[u8], mask: &[bool]) {
    match to.item {
        1 => scatter_some::<1>(bytes, to, codes, mask),
        2 => scatter_some::<2>(bytes, to, codes, mask),
        _ => scatter_some::<4>(bytes, to, codes, mask),
    }
}

fn scatter_some<const N: usize>(bytes: &mut [u8], to: &Resolved, codes: &[u8], mask: &[bool]) {
    let (mut codes, mut mask) = (codes.as_chunks::<N>().0, mask);
    to.each_line(|line| {
        let (own, own_mask);
        (own, codes) = codes.split_at(line.count);
        (own_mask, mask) = mask.split_at(line.count);
        let Some(start) = line.start else { return };
        let pairs = own.iter().zip(own_mask);
        if line.stride == N as isize {
            let elements = bytes[start..start + line.count * N].as_chunks_mut::<N>().0;
            for (element, (code, is_meant)) in elements.iter_mut().zip(pairs) {
                *element = if *is_meant { *code } else { *element };
            }
        } else {
            for ((code, is_meant), at) in pairs.zip(places(start, &line)) {
                if *is_meant {
                    bytes[at..at + N].copy_from_slice(code);
                }
            }
        }
    });
}

/// Calls `visit` with the number of each element and the byte it starts at; not for rows left out.
pub(super) fn each_element(of: &Resolved, mut visit: impl FnMut(usize, usize)) {
    let mut number = 0;
    of.each_line(|line| {
        if let Some(start) = line.start {
            for (index, at) in places(start, &line).enumerate() {
                visit(number + index, at);
            }
        }
        number += line.count;
    });
}

/// Calls `visit` with the number of the first element and the bytes of each run; not for rows left out.
pub(super) fn each_run(of: &Resolved, mut visit: impl FnMut(usize, std::ops::Range<usize>)) {
    let mut number = 0;
    of.each_line(|line| {
        match line.start {
            Some(start) if line.stride == of.item as isize => visit(number, start..start + line.count * of.item),
            Some(start) => {
                for (index, at) in places(start, &line).enumerate() {
                    visit(number + index, at..at + of.item);
                }
            }
            None => {}
        }
        number += line.count;
    });
}
