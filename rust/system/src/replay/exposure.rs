//! Time in which a rank computes, communicates, and communicates without computing.

use super::job::{Job, JobWork};

/// Seconds of each rank: computing, communicating, communicating only.
pub(super) fn of(job: &Job, spans: &[Vec<(f64, f64)>]) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let (mut computing, mut communicating, mut exposed) = (Vec::new(), Vec::new(), Vec::new());
    for (nodes, spans) in job.ranks.iter().zip(spans) {
        let select = |wanted: fn(&JobWork) -> bool| {
            let all = nodes.iter().zip(spans).filter(|(node, _)| wanted(&node.work));
            union(all.map(|(_, span)| *span).collect())
        };
        let busy = select(|work| matches!(work, JobWork::Compute { .. }));
        let talk =
            select(|work| matches!(work, JobWork::Send { .. } | JobWork::Receive { .. } | JobWork::Collective { .. }));
        computing.push(length(&busy));
        communicating.push(length(&talk));
        exposed.push((length(&talk) - common(&busy, &talk)).max(0.0));
    }
    (computing, communicating, exposed)
}

/// Spans that do not touch each other, ascending.
fn union(mut spans: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    spans.retain(|span| span.1 > span.0);
    spans.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let mut merged: Vec<(f64, f64)> = Vec::new();
    for span in spans {
        match merged.last_mut() {
            Some(last) if span.0 <= last.1 => last.1 = last.1.max(span.1),
            _ => merged.push(span),
        }
    }
    merged
}

fn length(spans: &[(f64, f64)]) -> f64 {
    spans.iter().map(|span| span.1 - span.0).sum()
}

fn common(a: &[(f64, f64)], b: &[(f64, f64)]) -> f64 {
    let (mut i, mut j, mut total) = (0, 0, 0.0);
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        total += (x.1.min(y.1) - x.0.max(y.0)).max(0.0);
        if x.1 < y.1 {
            i += 1;
        } else {
            j += 1;
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_union_merges_what_touches() {
        assert_eq!(union(vec![(3.0, 4.0), (0.0, 1.0), (1.0, 2.0), (5.0, 5.0)]), [(0.0, 2.0), (3.0, 4.0)]);
    }

    #[test]
    fn test_common_counts_overlap_once() {
        assert_eq!(common(&[(0.0, 2.0), (3.0, 6.0)], &[(1.0, 4.0), (5.0, 9.0)]), 3.0);
        assert_eq!(common(&[], &[(1.0, 4.0)]), 0.0);
    }
}
