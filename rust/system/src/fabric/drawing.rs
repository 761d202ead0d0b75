//! Drawings: chips on a grid by their coordinates, switches beside what hangs on them.

use super::graph::{Fabric, FabricLevel, Link};
use crate::error::{Error, Result};

/// Drawn are at most so many chips.
const MOST_CHIPS: usize = 1024;

/// Okabe and Ito's colours, which colour-blind readers tell apart.
const COLOURS: [&str; 6] = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"];
const CHIP: &str = "#333333";
const SWITCH: &str = "#888888";

/// Between blocks of chips, in chips.
const GAP: f64 = 2.5;

/// A chip or a switch on a drawing.
#[derive(Clone, Debug, PartialEq)]
pub struct DrawnNode {
    /// Its name.
    pub name: String,
    /// From the left, in chips.
    pub x: f64,
    /// From the top, in chips.
    pub y: f64,
    /// Whether it is a switch.
    pub is_switch: bool,
    /// Its colour.
    pub colour: &'static str,
}

/// A bundle of links on a drawing, both directions as one.
#[derive(Clone, Debug, PartialEq)]
pub struct DrawnLink {
    /// Indices of the nodes that it joins.
    pub ends: (usize, usize),
    /// The control point of its curve.
    pub control: (f64, f64),
    /// The colour of its level.
    pub colour: &'static str,
    /// What it is.
    pub label: String,
}

/// A fabric on paper, in chips as units, y downwards.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawing {
    /// What is drawn.
    pub title: String,
    /// Its levels with their colours.
    pub levels: Vec<(String, &'static str)>,
    /// Chips, then switches.
    pub nodes: Vec<DrawnNode>,
    /// What joins them.
    pub links: Vec<DrawnLink>,
}

impl Fabric {
    /// Where its chips, switches and links lie on a drawing.
    ///
    /// # Errors
    /// [`Error::Value`] if it has more than 1,024 chips.
    ///
    /// ```
    /// use trn3_system::fabric::{Fabric, LinkProfile};
    ///
    /// let torus = Fabric::built_in("trn2_instance", LinkProfile::Docs)?;
    /// assert_eq!(torus.drawing()?.nodes.len(), 16);
    /// assert!(torus.drawing()?.svg().starts_with("<svg"));
    /// # Ok::<(), trn3_system::Error>(())
    /// ```
    pub fn drawing(&self) -> Result<Drawing> {
        let chips = self.chips();
        if chips > MOST_CHIPS {
            return Err(Error::Value(format!("{} has {chips} chips; drawn are at most {MOST_CHIPS}", self.name())));
        }
        let places = self.places();
        let mut taken: Vec<(f64, f64)> = places.clone();
        let mut nodes: Vec<DrawnNode> = Vec::with_capacity(self.nodes().len());
        for (at, node) in self.nodes().iter().enumerate() {
            let is_switch = at >= chips;
            let (x, mut y) = if is_switch { self.beside(at, &places) } else { places[at] };
            while is_switch && taken.contains(&(x, y)) {
                y -= 0.8;
            }
            taken.push((x, y));
            let colour = if is_switch { SWITCH } else { CHIP };
            nodes.push(DrawnNode { name: node.name.clone(), x, y, is_switch, colour });
        }
        let once = self.links().iter().filter(|link| link.from < link.to);
        let links = once.map(|link| self.drawn(link, &nodes)).collect();
        let mut title = format!("{}, links={}", self.title(), self.profile().name());
        self.faults().iter().for_each(|fault| title.extend([", ", fault]));
        let level = |(at, level): (usize, &FabricLevel)| {
            let one = rate(level.rate / f64::from(level.links));
            (format!("{}: {} x {one} one way", level.name, level.links), COLOURS[at % COLOURS.len()])
        };
        Ok(Drawing { title, levels: self.levels().iter().enumerate().map(level).collect(), nodes, links })
    }

    /// Where its chips lie.
    fn places(&self) -> Vec<(f64, f64)> {
        let sizes: Vec<f64> = self.axes().iter().map(|axis| f64::from(axis.size)).collect();
        let coordinates = self.nodes()[..self.chips()].iter().map(|node| &node.coordinates);
        let widest = sizes.iter().copied().fold(0.0, f64::max);
        if sizes.iter().filter(|size| **size > 1.0).count() == 1 && widest > 12.0 {
            let width = (widest * 1.6).sqrt().ceil() as u32;
            let flat = coordinates.map(|place| place.iter().sum::<u32>());
            return flat.map(|at| (f64::from(at % width), f64::from(at / width))).collect();
        }
        // The last axis runs to the right, the one before it down, and so on in turn, block by block.
        let mut extent = [1.0, 1.0];
        let mut strides: Vec<f64> = Vec::with_capacity(sizes.len());
        for (number, &size) in sizes.iter().rev().enumerate() {
            let side = number % 2;
            let is_first = extent[side] == 1.0;
            strides.push(if is_first { 1.0 } else { extent[side] + GAP });
            if size > 1.0 {
                extent[side] = if is_first { size } else { extent[side] * size + GAP * (size - 1.0) };
            }
        }
        let along = |place: &[u32], side: usize| -> f64 {
            let steps = place.iter().rev().zip(&strides).enumerate().filter(|(number, _)| number % 2 == side);
            steps.map(|(_, (&step, stride))| f64::from(step) * stride).sum()
        };
        coordinates.map(|place| (along(place, 0), along(place, 1))).collect()
    }

    /// Where a switch lies.
    fn beside(&self, switch: usize, places: &[(f64, f64)]) -> (f64, f64) {
        let targets = self.links_from(switch).iter().map(|&link| self.links()[link as usize].to as usize);
        let below: Vec<(f64, f64)> = targets.filter_map(|node| places.get(node).copied()).collect();
        let Some(&(_, first)) = below.first() else { return (0.0, -2.0) };
        let (right, top) = below.iter().fold((f64::MIN, f64::MAX), |(x, y), place| (place.0.max(x), place.1.min(y)));
        if below.len() <= 16 && below.iter().all(|place| place.1 == first) {
            return (right + 0.9, first);
        }
        (below.iter().map(|place| place.0).sum::<f64>() / below.len() as f64, top - 1.6)
    }

    fn drawn(&self, link: &Link, nodes: &[DrawnNode]) -> DrawnLink {
        let ends = (link.from as usize, link.to as usize);
        let (a, b) = (&nodes[ends.0], &nodes[ends.1]);
        let distance = (a.x - b.x).hypot(a.y - b.y);
        // How far its middle lies beside the straight line.
        let bend = if a.is_switch || b.is_switch || distance < 1.5 { 0.0 } else { (0.12 * distance).min(1.2) };
        // A control point lies twice as far off as the curve it makes.
        let off = 2.0 * bend / if distance == 0.0 { 1.0 } else { distance };
        let control = ((a.x + b.x) / 2.0 + (b.y - a.y) * off, (a.y + b.y) / 2.0 - (b.x - a.x) * off);
        let level = &self.levels()[link.level as usize].name;
        let one = rate(link.rate / f64::from(link.links));
        let label = format!("{} -> {} ({level}, {} x {one})", a.name, b.name, link.links);
        DrawnLink { ends, control, colour: COLOURS[link.level as usize % COLOURS.len()], label }
    }
}

/// Bytes a second with a unit and four digits.
fn rate(value: f64) -> String {
    if value.is_infinite() {
        return "unlimited".to_owned();
    }
    const UNITS: [(f64, &str); 6] = [(1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")];
    // Half a unit of the fourth digit below the next unit is that unit.
    let (factor, unit) = UNITS.into_iter().find(|(factor, _)| value >= factor * 0.99995).unwrap_or(UNITS[5]);
    format!("{} {unit}/s", trn3_facts::general(value / factor, 4))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

impl Drawing {
    /// The text of an SVG file, in which marks and lines say what they are.
    pub fn svg(&self) -> String {
        const SCALE: f64 = 40.0;
        const EDGE: f64 = 1.5;
        const LINE_HEIGHT: usize = 18;
        let bound = |of: fn(&DrawnNode) -> f64, pick: fn(f64, f64) -> f64| self.nodes.iter().map(of).reduce(pick);
        let [left, right, top, bottom] = [
            bound(|node| node.x, f64::min),
            bound(|node| node.x, f64::max),
            bound(|node| node.y, f64::min),
            bound(|node| node.y, f64::max),
        ]
        .map(Option::unwrap_or_default);
        let (left, top) = (left - EDGE, top - EDGE);
        let longest = self.levels.iter().map(|(name, _)| name).chain([&self.title]);
        let longest = longest.map(|text| text.chars().count()).max().unwrap_or(0);
        let width = ((right + EDGE - left) * SCALE).max(8.0 * longest as f64);
        let head = (LINE_HEIGHT * (self.levels.len() + 2)) as f64;
        let height = (bottom + EDGE - top) * SCALE + head;
        let at = |x: f64, y: f64| ((x - left) * SCALE, (y - top) * SCALE + head);
        let title = escaped(&self.title);
        let mut lines = vec![
            format!("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\""),
            format!("width=\"{width:.0}\" height=\"{height:.0}\" font-family=\"sans-serif\" font-size=\"12\">"),
            format!("<title>{title}</title>"),
            "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>".to_owned(),
            format!("<text x=\"10\" y=\"{LINE_HEIGHT}\" font-weight=\"bold\">{title}</text>"),
        ];
        for (number, (name, colour)) in self.levels.iter().enumerate() {
            let y = LINE_HEIGHT * (number + 2);
            lines.push(format!("<path d=\"M10 {} h24\" stroke=\"{colour}\" stroke-width=\"2\"/>", y - 4));
            lines.push(format!("<text x=\"40\" y=\"{y}\">{}</text>", escaped(name)));
        }
        for DrawnLink { ends, control, colour, label } in &self.links {
            let ends = [&self.nodes[ends.0], &self.nodes[ends.1]].map(|node| at(node.x, node.y));
            let [(x, y), (to_x, to_y)] = ends;
            let (over_x, over_y) = at(control.0, control.1);
            lines.push(format!(
                "<path d=\"M{x:.1} {y:.1} Q{over_x:.1} {over_y:.1} {to_x:.1} {to_y:.1}\" fill=\"none\" \
                 stroke=\"{colour}\" stroke-opacity=\"0.55\"><title>{}</title></path>",
                escaped(label)
            ));
        }
        for DrawnNode { name, x, y, is_switch, colour } in &self.nodes {
            let name = escaped(name);
            lines.push(if *is_switch {
                let ((x, y), (width, height)) = (at(x - 0.22, y - 0.14), (0.44 * SCALE, 0.28 * SCALE));
                format!(
                    "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\">\
                     <title>{name}</title></rect>"
                )
            } else {
                let ((x, y), radius, id) = (at(*x, *y), 0.2 * SCALE, name.replace('"', "&quot;"));
                format!(
                    "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\" fill=\"{colour}\" id=\"{id}\">\
                     <title>chip {name}</title></circle>"
                )
            });
        }
        lines.push("</svg>\n".to_owned());
        lines.join("\n")
    }
}
