//! Windows that slide over an array: what `convolution`, `reduce_window` and `select_and_scatter` have in common.

use crate::graph::OperationCut;
use crate::strided::row_major;

/// How a window slides along one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WindowAxis {
    /// Elements of the array.
    pub(super) length: usize,
    /// Elements of the window.
    pub(super) window: usize,
    /// From one window to the next.
    pub(super) stride: usize,
    /// From one element of the array to the next; what is between is empty.
    pub(super) base_dilation: usize,
    /// From one element of the window to the next.
    pub(super) window_dilation: usize,
    /// Empty places before and after; negative ones cut.
    pub(super) padding: [i64; 2],
}

/// A row of windows whose element at one place of the window is an element of the array: a progression in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reach {
    /// The first such window, and from one to the next.
    pub(super) windows: [usize; 2],
    /// The element that the first one meets, and from one to the next.
    pub(super) elements: [usize; 2],
    /// How many there are.
    pub(super) count: usize,
}

fn greatest_common_divisor(x: usize, y: usize) -> usize {
    if y == 0 { x } else { greatest_common_divisor(y, x % y) }
}

impl WindowAxis {
    /// Whether each window is the element of its own number.
    pub(super) fn is_plain(&self) -> bool {
        let steps = [self.window, self.stride, self.base_dilation, self.window_dilation];
        steps == [1; 4] && self.padding == [0, 0]
    }

    /// Refuses lengths of nothing.
    pub(super) fn is_sound(&self) -> bool {
        let limit = 1 << 40;
        [self.window, self.stride, self.base_dilation, self.window_dilation].iter().all(|&n| 0 < n && n < limit)
            && self.padding.iter().all(|n| n.unsigned_abs() < limit as u64)
    }

    /// The same with windows and places exchanged.
    fn turned(&self) -> WindowAxis {
        let spread = if self.length == 0 { 0 } else { (self.length - 1) as i64 * self.base_dilation as i64 + 1 };
        let (windows, places) = (self.windows() as i64, self.window as i64);
        let padded = (windows - 1) * self.stride as i64 + (places - 1) * self.window_dilation as i64 + 1;
        WindowAxis {
            window: windows as usize,
            stride: self.window_dilation,
            window_dilation: self.stride,
            padding: [self.padding[0], padded - self.padding[0] - spread],
            ..*self
        }
    }

    /// How many windows there are: those that lie inside the padded array.
    pub(super) fn windows(&self) -> usize {
        let spread = if self.length == 0 { 0 } else { (self.length - 1) as i64 * self.base_dilation as i64 + 1 };
        let padded = self.padding[0] + spread + self.padding[1];
        let reach = (self.window - 1) as i64 * self.window_dilation as i64 + 1;
        if padded < reach { 0 } else { ((padded - reach) / self.stride as i64) as usize + 1 }
    }

    /// Which windows have an element of the array at place `offset`.
    pub(super) fn reach(&self, offset: usize) -> Reach {
        let none = Reach { windows: [0, 1], elements: [0, 1], count: 0 };
        let (stride, dilation) = (self.stride as i64, self.base_dilation as i64);
        // Element e meets window w where w * stride + shift = e * dilation.
        let shift = (offset * self.window_dilation) as i64 - self.padding[0];
        let divisor = greatest_common_divisor(self.stride, self.base_dilation);
        let step = self.base_dilation / divisor;
        if self.length == 0 || shift % divisor as i64 != 0 {
            return none;
        }
        let lowest = (-shift).max(0).div_euclid(stride) + i64::from((-shift).max(0) % stride != 0);
        let first = (lowest..lowest + step as i64).find(|window| (window * stride + shift) % dilation == 0);
        let Some(first) = first else { return none };
        let first_element = (first * stride + shift) / dilation;
        let element_step = self.stride / divisor;
        let windows = self.windows() as i64;
        if first >= windows || first_element >= self.length as i64 {
            return none;
        }
        let by_windows = (windows - 1 - first) as usize / step;
        let by_elements = (self.length as i64 - 1 - first_element) as usize / element_step;
        Reach {
            windows: [first as usize, step],
            elements: [first_element as usize, element_step],
            count: by_windows.min(by_elements) + 1,
        }
    }
}

/// Windows over all axes of an array.
#[derive(Clone, Debug)]
pub(super) struct Windows {
    pub(super) axes: Vec<WindowAxis>,
}

impl Windows {
    /// Shape of the array of windows.
    pub(super) fn shape(&self) -> Vec<usize> {
        self.axes.iter().map(WindowAxis::windows).collect()
    }

    /// Places of the window, in row-major order: how many.
    pub(super) fn places(&self) -> usize {
        self.axes.iter().map(|axis| axis.window).product()
    }

    /// The index along each axis of the place with this row-major number.
    pub(super) fn indices(&self, place: usize) -> Vec<usize> {
        let mut rest = place;
        let mut indices: Vec<usize> = self
            .axes
            .iter()
            .rev()
            .map(|axis| {
                let index = rest % axis.window;
                rest /= axis.window;
                index
            })
            .collect();
        indices.reverse();
        indices
    }

    /// Windows and places exchanged: window w of these has at its place o the element that window o of the others has at
    /// place w.
    pub(super) fn turned(&self) -> Windows {
        Windows { axes: self.axes.iter().map(WindowAxis::turned).collect() }
    }

    /// Axes that an operation of that many operands and results can be cut along: those on which each element is a window.
    ///
    /// The last operand is the scalar that windows begin with, which every part takes whole.
    pub(super) fn cuts(&self, operands: usize, results: usize) -> Vec<OperationCut> {
        let axes = self.axes.iter().enumerate().filter(|(_, axis)| axis.is_plain());
        axes.map(|(axis, _)| {
            let mut of_operands = vec![Some(axis); operands - 1];
            of_operands.push(None);
            OperationCut { operands: of_operands, results: vec![axis; results] }
        })
        .collect()
    }

    /// Calls `visit` with rows of windows that meet elements at one place of the window, which has the row-major number
    /// `place`; numbers of windows and elements count by the strides given.
    pub(super) fn for_each_row(
        &self,
        place: usize,
        window_strides: &[usize],
        element_strides: &[usize],
        mut visit: impl FnMut(Reach),
    ) {
        let mut rest = place;
        let mut reaches = Vec::with_capacity(self.axes.len());
        for axis in self.axes.iter().rev() {
            reaches.push(axis.reach(rest % axis.window));
            rest /= axis.window;
        }
        reaches.reverse();
        if reaches.iter().any(|reach| reach.count == 0) {
            return;
        }
        let Some((last, outer)) = reaches.split_last() else {
            return visit(Reach { windows: [0, 1], elements: [0, 1], count: 1 });
        };
        let both = |axis: usize, reach: &Reach, steps: [usize; 2]| {
            [steps[0] * window_strides[axis], steps[1] * element_strides[axis], reach.count]
        };
        let mut start = [0, 0];
        for (axis, reach) in reaches.iter().enumerate() {
            let [window, element, _] = both(axis, reach, [reach.windows[0], reach.elements[0]]);
            start = [start[0] + window, start[1] + element];
        }
        let steps: Vec<[usize; 3]> = outer
            .iter()
            .enumerate()
            .map(|(axis, reach)| both(axis, reach, [reach.windows[1], reach.elements[1]]))
            .collect();
        let [window_step, element_step, count] = both(outer.len(), last, [last.windows[1], last.elements[1]]);
        let mut index = vec![0usize; outer.len()];
        loop {
            visit(Reach { windows: [start[0], window_step], elements: [start[1], element_step], count });
            let mut axis = outer.len();
            loop {
                let Some(next) = axis.checked_sub(1) else { return };
                axis = next;
                let [window, element, count] = steps[axis];
                index[axis] += 1;
                if index[axis] < count {
                    start = [start[0] + window, start[1] + element];
                    break;
                }
                start = [start[0] - window * (count - 1), start[1] - element * (count - 1)];
                index[axis] = 0;
            }
        }
    }
}

/// Distances of a row-major array, which are never negative.
pub(super) fn distances(shape: &[usize]) -> Vec<usize> {
    row_major(shape).into_iter().map(|step| step as usize).collect()
}
